//! Which names the files of one folder get on the drive.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};

use rowdrive::schema::Name;

/// What a local name becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The same.
    Same(Name),
    /// Its canonical composition (NFC), which is another text.
    Composed(Name),
    /// It has none, and why.
    Refused(String),
}

/// The names of one folder's files and folders, in the order in which they are dealt with.
///
/// Of several that become one, a name that is composed already gets it, else the first in byte order: so it is the
/// same one in every run, and a repeat never puts one file over the other.
pub fn judge<T>(local: Vec<(OsString, T)>) -> Vec<(OsString, T, Verdict)> {
    let mut judged: Vec<_> = local.into_iter().map(|(local, of)| alone(local, of)).collect();
    judged.sort_by(|(a, _, left), (b, _, right)| {
        let composed = |verdict: &Verdict| matches!(verdict, Verdict::Composed(_));
        (composed(left), a).cmp(&(composed(right), b))
    });
    let has_twins = judged.iter().any(|(.., verdict)| matches!(verdict, Verdict::Composed(_)));
    if has_twins {
        let mut taken = HashSet::new();
        for (.., verdict) in &mut judged {
            if let Verdict::Same(name) | Verdict::Composed(name) = verdict
                && !taken.insert(name.clone())
            {
                let why = format!("another name beside it is {name} too once it is composed (NFC): rename one of them");
                *verdict = Verdict::Refused(why);
            }
        }
    }
    judged
}

fn alone<T>(local: OsString, of: T) -> (OsString, T, Verdict) {
    let verdict = match local.to_str().map(Name::parse) {
        None => Verdict::Refused("its name is not UTF-8".to_owned()),
        Some(Err(error)) => Verdict::Refused(error.to_string()),
        Some(Ok(name)) if OsStr::new(name.as_str()) == local => Verdict::Same(name),
        Some(Ok(name)) => Verdict::Composed(name),
    };
    (local, of, verdict)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn names_are_judged_alike_in_whatever_order_they_come() {
        let names = ["b", "e\u{301}", "\u{e9}", "o\u{302}\u{323}", "o\u{323}\u{302}", "a\nb", " ", "\u{212b}"];
        let mut local: Vec<_> = names.iter().map(|name| (OsString::from(name), ())).collect();
        local.push((OsString::from_vec(vec![b'x', 0xff]), ()));
        local.push((OsString::from("x".repeat(256)), ()));
        let first = judge(local.clone());
        for _ in 0..local.len() {
            local.rotate_left(1);
            assert_eq!(judge(local.clone()), first);
        }
        let name = |text: &str| Name::parse(text).unwrap();
        let of = |text: &str| first.iter().find(|(local, ..)| local == text).unwrap().2.clone();
        assert_eq!(of("b"), Verdict::Same(name("b")));
        assert_eq!(of("\u{e9}"), Verdict::Same(name("\u{e9}")));
        assert!(matches!(of("e\u{301}"), Verdict::Refused(why) if why.contains("\u{e9} too")));
        assert_eq!(of("\u{212b}"), Verdict::Composed(name("\u{c5}")));
        // Both become the same; the first in byte order has it.
        assert_eq!(of("o\u{302}\u{323}"), Verdict::Composed(name("\u{1ed9}")));
        assert!(matches!(of("o\u{323}\u{302}"), Verdict::Refused(_)));
        assert!(matches!(of("a\nb"), Verdict::Refused(why) if why.contains("control")));
        assert!(matches!(of(&"x".repeat(256)), Verdict::Refused(why) if why.contains("255")));
        assert_eq!(first.iter().filter(|(.., verdict)| matches!(verdict, Verdict::Refused(_))).count(), 5);
    }
}
