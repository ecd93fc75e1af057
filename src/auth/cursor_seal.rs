//! Seals the cursors of users and of shares. A page may end at a file that its user may not see, so a cursor must not
//! show its position.

use super::Auth;
use super::credential::Credential;
use super::error::Result;
use super::seal::SealKey;

/// Positions are filled up to a multiple of so many bytes, so that their length shows nothing of most names.
const STEP: usize = 64;
/// Ends a position before it is filled up with zeros (ISO/IEC 7816-4).
const END: u8 = 0x80;

/// Seals the cursors of one user, or of one share. Cheap to clone.
#[derive(Clone, Debug)]
pub struct CursorSeal {
    key: SealKey,
    /// The name of the user, or the id of the share after a slash, which no name has.
    holder: String,
}

impl Auth {
    /// The seal of the cursors of a user or a share; none of somebody who is neither.
    pub async fn cursor_seal(&self, credential: &Credential) -> Result<Option<CursorSeal>> {
        let Some(user) = credential.user() else { return Ok(None) };
        let holder = match credential.secret().filter(|_| credential.is_share()) {
            Some(share) => format!("/{}", share.id.0),
            None => user.as_str().to_owned(),
        };
        Ok(Some(CursorSeal { key: self.seal_key().await?, holder }))
    }
}

impl CursorSeal {
    /// `scope`: what the cursor is of, a hash; it opens for nothing else.
    pub fn seal(&self, scope: &[u8], position: &[u8]) -> Result<Vec<u8>> {
        let mut filled = [position, &[END]].concat();
        filled.resize(filled.len().next_multiple_of(STEP), 0);
        self.key.seal(self.context(scope), filled)
    }

    /// The position; none if it is not of this scope and this user.
    pub fn open(&self, scope: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        let filled = self.key.open(self.context(scope), sealed)?;
        let end = filled.iter().rposition(|byte| *byte == END)?;
        filled.get(..end).map(<[u8]>::to_vec)
    }

    fn context(&self, scope: &[u8]) -> Vec<u8> {
        [scope, self.holder.as_bytes()].concat()
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::aead::NONCE_LEN;

    use super::*;

    fn seal(key: u8, user: &str) -> CursorSeal {
        CursorSeal { key: SealKey::new(&[key; 32]).unwrap(), holder: user.to_owned() }
    }

    #[test]
    fn a_cursor_shows_nothing_and_opens_for_its_user_and_scope_alone() {
        let (eve, scope) = (seal(1, "eve"), [3; 32]);
        for position in [&b""[..], b"secret.jpg", &[0x80, 0, 0x80], &[0; 64], &[7; 63], &[7; 700]] {
            let sealed = eve.seal(&scope, position).unwrap();
            assert_eq!(eve.open(&scope, &sealed).as_deref(), Some(position));
            assert_eq!((sealed.len() - NONCE_LEN - 16) % STEP, 0);
            assert!(position.len() < 4 || !sealed.windows(4).any(|part| part == &position[..4]));
            for (other, scope) in [(&seal(1, "tom"), scope), (&seal(2, "eve"), scope), (&eve, [4; 32])] {
                assert_eq!(other.open(&scope, &sealed), None);
            }
            for at in 0..sealed.len() {
                let mut changed = sealed.clone();
                changed[at] ^= 1;
                assert_eq!(eve.open(&scope, &changed), None, "{at}");
            }
        }
        assert_ne!(eve.seal(&scope, b"a").unwrap(), eve.seal(&scope, b"a").unwrap());
        for odd in [&b""[..], &[0; 11], &[0; 12], &[0; 28], &[0; 92]] {
            assert_eq!(eve.open(&scope, odd), None);
        }
    }
}
