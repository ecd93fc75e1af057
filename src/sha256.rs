//! SHA-256 (FIPS 180-4), by aws-lc-rs: on processors without instructions for it, as many of Intel until 2020, the crate
//! `sha2` takes several times as long.

use aws_lc_rs::digest::{self, Context, Digest, SHA256};

/// The digest of bytes that come in parts.
#[derive(Clone)]
pub struct Sha256(Context);

impl Sha256 {
    /// Of no bytes.
    pub fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    /// Adds a part.
    pub fn update(&mut self, part: impl AsRef<[u8]>) {
        self.0.update(part.as_ref());
    }

    /// The digest of all parts.
    pub fn done(self) -> [u8; 32] {
        bytes_of(&self.0.finish())
    }
}

impl Default for Sha256 {
    fn default() -> Self {
        Self::new()
    }
}

/// The digest of bytes that are in memory.
pub fn sha256(bytes: impl AsRef<[u8]>) -> [u8; 32] {
    bytes_of(&digest::digest(&SHA256, bytes.as_ref()))
}

fn bytes_of(digest: &Digest) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest.as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No bytes, and the examples of FIPS 180-4, whole and in parts of every length.
    #[test]
    fn digests_are_those_of_the_standard() {
        let long = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        for (text, expected) in [
            ("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
            ("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (long, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"),
        ] {
            let hex = |digest: [u8; 32]| digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            assert_eq!(hex(sha256(text)), expected);
            for len in 1..=text.len() {
                let mut sha = Sha256::default();
                text.as_bytes().chunks(len).for_each(|part| sha.update(part));
                assert_eq!(hex(sha.clone().done()), expected, "in parts of {len}");
            }
        }
    }
}
