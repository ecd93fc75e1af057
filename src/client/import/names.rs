//! The names of local files on the drive.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};

use rowdrive::schema::Name;

/// The name on the drive of a local file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameMapping {
    /// The same.
    Same(Name),
    /// Its canonical composition (NFC), which differs.
    Composed(Name),
    /// None, with the reason.
    Refused(String),
}

/// Maps the names of one folder, in the order in which they are uploaded.
///
/// When several names map to one, a name that is already composed wins, else the first in byte order. So every run
/// chooses the same one, and no run replaces one file by the other.
pub fn map_names<T>(local: Vec<(OsString, T)>) -> Vec<(OsString, T, NameMapping)> {
    let mut mapped: Vec<_> = local.into_iter().map(|(local, of)| alone(local, of)).collect();
    mapped.sort_by(|(a, _, left), (b, _, right)| {
        let composed = |verdict: &NameMapping| matches!(verdict, NameMapping::Composed(_));
        (composed(left), a).cmp(&(composed(right), b))
    });
    let has_twins = mapped.iter().any(|(.., verdict)| matches!(verdict, NameMapping::Composed(_)));
    if has_twins {
        let mut taken = HashSet::new();
        for (.., verdict) in &mut mapped {
            if let NameMapping::Same(name) | NameMapping::Composed(name) = verdict
                && !taken.insert(name.clone())
            {
                let why =
                    format!("another name in this folder is {name} too after composition (NFC): rename one of them");
                *verdict = NameMapping::Refused(why);
            }
        }
    }
    mapped
}

fn alone<T>(local: OsString, of: T) -> (OsString, T, NameMapping) {
    let verdict = match local.to_str().map(Name::parse) {
        None => NameMapping::Refused("its name is not UTF-8".to_owned()),
        Some(Err(error)) => NameMapping::Refused(error.to_string()),
        Some(Ok(name)) if OsStr::new(name.as_str()) == local => NameMapping::Same(name),
        Some(Ok(name)) => NameMapping::Composed(name),
    };
    (local, of, verdict)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn names_are_mapped_alike_in_any_order() {
        let names = ["b", "e\u{301}", "\u{e9}", "o\u{302}\u{323}", "o\u{323}\u{302}", "a\nb", " ", "\u{212b}"];
        let mut local: Vec<_> = names.iter().map(|name| (OsString::from(name), ())).collect();
        local.push((OsString::from_vec(vec![b'x', 0xff]), ()));
        local.push((OsString::from("x".repeat(256)), ()));
        let first = map_names(local.clone());
        for _ in 0..local.len() {
            local.rotate_left(1);
            assert_eq!(map_names(local.clone()), first);
        }
        let name = |text: &str| Name::parse(text).unwrap();
        let mapping = |text: &str| first.iter().find(|(local, ..)| local == text).unwrap().2.clone();
        assert_eq!(mapping("b"), NameMapping::Same(name("b")));
        assert_eq!(mapping("\u{e9}"), NameMapping::Same(name("\u{e9}")));
        assert!(matches!(mapping("e\u{301}"), NameMapping::Refused(why) if why.contains("\u{e9} too")));
        assert_eq!(mapping("\u{212b}"), NameMapping::Composed(name("\u{c5}")));
        // Both map to one name; the first in byte order gets it.
        assert_eq!(mapping("o\u{302}\u{323}"), NameMapping::Composed(name("\u{1ed9}")));
        assert!(matches!(mapping("o\u{323}\u{302}"), NameMapping::Refused(_)));
        assert!(matches!(mapping("a\nb"), NameMapping::Refused(why) if why.contains("control")));
        assert!(matches!(mapping(&"x".repeat(256)), NameMapping::Refused(why) if why.contains("255")));
        assert_eq!(first.iter().filter(|(.., verdict)| matches!(verdict, NameMapping::Refused(_))).count(), 5);
    }
}
