//! How texts of others are shown to people: with nothing that hides, or turns what stands beside it.

use icu_properties::CodePointSetData;
use icu_properties::props::DefaultIgnorableCodePoint;

/// Whether a character breaks lines, or is not seen itself (Unicode, `Default_Ignorable_Code_Point`).
pub fn is_hidden(c: char) -> bool {
    let breaks = matches!(c, '\u{2028}' | '\u{2029}');
    // Annotations of a text within it.
    let annotates = matches!(c, '\u{fff9}'..='\u{fffb}');
    // The joiners, and the choice of a coloured picture: words and pictures of families need them.
    let joins = matches!(c, '\u{200c}' | '\u{200d}' | '\u{fe00}'..='\u{fe0f}');
    breaks || annotates || (!joins && CodePointSetData::new::<DefaultIgnorableCodePoint>().contains(c))
}
