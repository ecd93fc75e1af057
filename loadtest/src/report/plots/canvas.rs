//! One plot: its title, legend and axes, and the few shapes that are drawn between them.
//!
//! Coordinates of SVG by `plotters` are whole numbers, so a plot is drawn at twice the size it is shown at. Sizes of
//! text are only estimated there, without a font: labels get room by their number of characters.

use plotters::backend::SVGBackend;
use plotters::chart::{ChartBuilder, ChartContext};
use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontStyle, IntoFont, IntoTextStyle, RGBColor, ShapeStyle, TextStyle, WHITE};

use super::axis::Axis;
use super::look::{GRID, INK, Look, Marker};

pub const WIDTH: u32 = 880;
/// `plotters` divides by 1.24 what it writes: 26 units, 13 pixels as the plot is shown.
const FONT: f64 = 26.0 * 1.24;
/// Width of a character, somewhat more than in most fonts.
const CHARACTER: i32 = 15;
const LINE: i32 = 38;
const MARGIN: i32 = 16;
/// Characters of a label; what is longer is cut.
const LONGEST: usize = 26;

/// All of a plot but its data.
pub struct Frame<'a> {
    pub title: &'a str,
    /// Units between the uppermost and the lowest point of the data.
    pub height: u32,
    pub x: &'a Axis,
    pub y: &'a Axis,
    pub x_title: &'a str,
    /// Empty for none.
    pub y_title: &'a str,
    pub legend: &'a [(&'a str, Look)],
    /// Characters of room on the right of the axes.
    pub right: usize,
    pub horizontal_lines: bool,
}

pub struct Canvas<'a> {
    root: DrawingArea<SVGBackend<'a>, Shift>,
    chart: ChartContext<'a, SVGBackend<'a>, Cartesian2d<Axis, Axis>>,
}

impl<'a> Canvas<'a> {
    /// Draws the frame; the canvas must be closed before `svg` is read.
    pub fn open(svg: &'a mut String, frame: &Frame<'_>) -> anyhow::Result<Self> {
        let (places, head) = legend(frame);
        let foot = LINE + if frame.x_title.is_empty() { 0 } else { LINE };
        let size = (WIDTH, head as u32 + frame.height + foot as u32 + MARGIN as u32);
        let root = SVGBackend::with_string(svg, size).into_drawing_area();
        root.fill(&WHITE)?;
        root.draw(&Text::new(shown(frame.title, 2 * LONGEST), (MARGIN, 12), style(INK, FontStyle::Bold)))?;
        for ((name, look), (x, y)) in frame.legend.iter().zip(places) {
            mark(&root, (x + 10, y + 10), *look, true)?;
            root.draw(&Text::new(shown(name, LONGEST), (x + 30, y), style(INK, FontStyle::Normal)))?;
        }
        let (_, body) = root.split_vertically(head);
        let labels = frame.y.widest().min(LONGEST) as i32 * CHARACTER + 20;
        let y_title = if frame.y_title.is_empty() { 0 } else { LINE };
        let mut builder = ChartBuilder::on(&body);
        builder
            .margin_left(MARGIN)
            .margin_right((frame.right as i32 * CHARACTER).max(2 * MARGIN))
            .margin_bottom(MARGIN)
            .x_label_area_size(foot)
            .y_label_area_size(labels + y_title);
        let mut chart = builder.build_cartesian_2d(frame.x.clone(), frame.y.clone())?;
        let mut mesh = chart.configure_mesh();
        if !frame.horizontal_lines {
            mesh.disable_y_mesh();
        }
        mesh.bold_line_style(GRID.stroke_width(2))
            .light_line_style(GRID)
            .axis_style(INK.stroke_width(2))
            .label_style(style(INK, FontStyle::Normal))
            .axis_desc_style(style(INK, FontStyle::Normal))
            .x_label_formatter(&|at| shown(&frame.x.format_ext(at), LONGEST))
            .y_label_formatter(&|at| shown(&frame.y.format_ext(at), LONGEST))
            .x_desc(shown(frame.x_title, 60))
            .y_desc(shown(frame.y_title, 60))
            .draw()?;
        Ok(Self { root, chart })
    }

    /// A line through points in the plot's coordinates.
    pub fn line(&self, points: &[(f64, f64)], color: RGBColor) -> anyhow::Result<()> {
        let points: Vec<_> = points.iter().map(|at| self.pixel(*at)).collect();
        Ok(self.root.draw(&PathElement::new(points, color.stroke_width(4)))?)
    }

    pub fn marker(&self, at: (f64, f64), look: Look, filled: bool) -> anyhow::Result<()> {
        mark(&self.root, self.pixel(at), look, filled)
    }

    /// A rectangle between two corners in the plot's coordinates.
    pub fn block(&self, from: (f64, f64), to: (f64, f64), color: RGBColor) -> anyhow::Result<()> {
        Ok(self.root.draw(&Rectangle::new([self.pixel(from), self.pixel(to)], color.filled()))?)
    }

    /// The outline of a rectangle.
    pub fn outline(&self, from: (f64, f64), to: (f64, f64), color: RGBColor) -> anyhow::Result<()> {
        let ((left, top), (right, bottom)) = (self.pixel(from), self.pixel(to));
        let corners = vec![(left, top), (right, top), (right, bottom), (left, bottom), (left, top)];
        Ok(self.root.draw(&PathElement::new(corners, color.stroke_width(4)))?)
    }

    /// A text of at most 52 characters, to the right of its point.
    pub fn text(&self, at: (f64, f64), text: &str) -> anyhow::Result<()> {
        let (x, y) = self.pixel(at);
        let style = style(INK, FontStyle::Normal).pos(Pos::new(HPos::Left, VPos::Center));
        Ok(self.root.draw(&Text::new(shown(text, 2 * LONGEST), (x + 12, y), style))?)
    }

    pub fn close(self) -> anyhow::Result<()> {
        Ok(self.root.present()?)
    }

    fn pixel(&self, at: (f64, f64)) -> (i32, i32) {
        self.chart.backend_coord(&at)
    }
}

/// Where the items of the legend stand, and how high title and legend are together.
fn legend(frame: &Frame<'_>) -> (Vec<(i32, i32)>, i32) {
    let (mut x, mut y) = (MARGIN, 12 + LINE + 4);
    let mut places = Vec::with_capacity(frame.legend.len());
    for (name, _) in frame.legend {
        let width = 30 + name.chars().count().min(LONGEST) as i32 * CHARACTER + 20;
        if x > MARGIN && x + width > WIDTH as i32 {
            (x, y) = (MARGIN, y + LINE);
        }
        places.push((x, y));
        x += width;
    }
    let head = if places.is_empty() { y } else { y + LINE };
    (places, head + 8)
}

fn style(color: RGBColor, style: FontStyle) -> TextStyle<'static> {
    ("sans-serif", FONT, style).into_font().color(&color).into_text_style(&(WIDTH, WIDTH))
}

/// Without control characters, which XML cannot hold, and cut after `longest` characters.
fn shown(text: &str, longest: usize) -> String {
    let clean = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c });
    if text.chars().count() > longest {
        clean.take(longest.saturating_sub(1)).chain(['…']).collect()
    } else {
        clean.collect()
    }
}

/// A mark of 20 units around a point.
fn mark(root: &DrawingArea<SVGBackend<'_>, Shift>, (x, y): (i32, i32), look: Look, filled: bool) -> anyhow::Result<()> {
    let corners = match look.marker {
        Marker::Circle => {
            root.draw(&Circle::new((x, y), 10, look.color.filled()))?;
            if !filled {
                root.draw(&Circle::new((x, y), 6, WHITE.filled()))?;
            }
            return Ok(());
        }
        Marker::Cross => {
            let style = look.color.stroke_width(if filled { 5 } else { 2 });
            root.draw(&PathElement::new(vec![(x - 8, y - 8), (x + 8, y + 8)], style))?;
            return Ok(root.draw(&PathElement::new(vec![(x - 8, y + 8), (x + 8, y - 8)], style))?);
        }
        Marker::Square => vec![(x - 9, y - 9), (x + 9, y - 9), (x + 9, y + 9), (x - 9, y + 9)],
        Marker::Triangle => vec![(x, y - 11), (x + 11, y + 9), (x - 11, y + 9)],
        Marker::Diamond => vec![(x, y - 12), (x + 12, y), (x, y + 12), (x - 12, y)],
    };
    if filled {
        return Ok(root.draw(&Polygon::new(corners, look.color.filled()))?);
    }
    root.draw(&Polygon::new(corners.clone(), WHITE.filled()))?;
    let outline: Vec<_> = corners.iter().chain(corners.first()).copied().collect();
    Ok(root.draw(&PathElement::new(outline, ShapeStyle::from(look.color).stroke_width(4)))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::plots::look;

    #[test]
    fn a_long_legend_wraps_within_the_width() {
        let axis = Axis::linear(1.0, |v| v.to_string());
        let names = ["a layout of some length", "another layout as long", "and a third one beside"];
        let legend_of: Vec<_> = names.iter().enumerate().map(|(at, name)| (*name, look::line(at))).collect();
        let frame = Frame {
            title: "",
            height: 100,
            x: &axis,
            y: &axis,
            x_title: "",
            y_title: "",
            legend: &legend_of,
            right: 0,
            horizontal_lines: true,
        };
        // 23, 22 and 22 characters: 395 and 380 units, so the third starts a row.
        let (places, head) = legend(&frame);
        assert_eq!(places, [(16, 54), (411, 54), (16, 92)]);
        assert_eq!(head, 138);
    }

    #[test]
    fn what_xml_cannot_hold_is_replaced_and_what_is_long_is_cut() {
        assert_eq!(shown("a\u{1}b\n", 10), "a\u{fffd}b\u{fffd}");
        assert_eq!(shown("abcdef", 4), "abc…");
    }
}
