//! What tells one series from another: colours that colour-blind people can tell apart, and shapes besides.

use plotters::style::RGBColor;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    Cross,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    pub color: RGBColor,
    pub marker: Marker,
}

pub const INK: RGBColor = RGBColor(0x22, 0x26, 0x2b);
pub const GRID: RGBColor = RGBColor(0xdf, 0xe3, 0xe8);
pub const MET: RGBColor = RGBColor(0x00, 0x72, 0xb2);
pub const MISSED: RGBColor = RGBColor(0xd5, 0x5e, 0x00);

/// Okabe and Ito, "Color Universal Design" (2008), without the yellow, which is too pale on white; then wine and olive of
/// Paul Tol's "Colour Schemes" (2021), so that each layout has its own.
const COLORS: [RGBColor; 9] = [
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x44, 0x44, 0x44),
    RGBColor(0x88, 0x22, 0x55),
    RGBColor(0x99, 0x99, 0x33),
];
const MARKERS: [Marker; 5] = [Marker::Circle, Marker::Square, Marker::Triangle, Marker::Diamond, Marker::Cross];

/// Of the series `at`: 45 of them are told apart, and nine by colour alone.
pub fn line(at: usize) -> Look {
    let color = COLORS.get(at % COLORS.len()).copied().unwrap_or(INK);
    let marker = MARKERS.get(at % MARKERS.len()).copied().unwrap_or(Marker::Circle);
    Look { color, marker }
}

/// The same for bars, whose legend shows a square.
pub fn bar(at: usize) -> Look {
    Look { marker: Marker::Square, ..line(at) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_repeat_after_forty_five_and_bars_after_nine() {
        let apart = |all: Vec<Look>| all.iter().enumerate().all(|(at, look)| !all[..at].contains(look));
        assert!(apart((0..45).map(line).collect()));
        assert_eq!(line(45), line(0));
        assert!(apart((0..9).map(bar).collect()));
    }
}
