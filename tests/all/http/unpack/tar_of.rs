//! Writes tars, good ones and bad ones, field by field.

/// The header of a member.
#[derive(Clone)]
pub struct Head {
    pub block: [u8; 512],
}

impl Head {
    /// A header of ustar, without its checksum.
    pub fn new(name: &str, kind: u8, size: u64) -> Self {
        let mut block = [0; 512];
        block[..name.len()].copy_from_slice(name.as_bytes());
        block[100..108].copy_from_slice(b"0000644\0");
        block[124..136].copy_from_slice(format!("{size:011o}\0").as_bytes());
        block[136..148].copy_from_slice(b"15125632645\0"); // 2026-01-02T03:04:05Z
        block[156] = kind;
        block[257..265].copy_from_slice(b"ustar\x0000");
        Self { block }
    }

    pub fn set(mut self, at: usize, bytes: &[u8]) -> Self {
        self.block[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// The block with its checksum.
    pub fn sealed(mut self) -> Vec<u8> {
        self.block[148..156].fill(b' ');
        let sum: u32 = self.block.iter().map(|byte| u32::from(*byte)).sum();
        self.block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.block.to_vec()
    }
}

/// A member of this type with this content, padded to blocks.
pub fn member(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = Head::new(name, kind, content.len() as u64).sealed();
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

pub fn file(name: &str, content: &[u8]) -> Vec<u8> {
    member(name, b'0', content)
}

pub fn folder(name: &str) -> Vec<u8> {
    member(name, b'5', b"")
}

/// An extended header with these records.
pub fn pax(records: &[(&str, &str)]) -> Vec<u8> {
    let records: Vec<String> = records.iter().map(|(key, value)| record(key, value)).collect();
    member("pax", b'x', records.concat().as_bytes())
}

pub fn record(key: &str, value: &str) -> String {
    let rest = key.len() + value.len() + 3;
    let len = (rest..).find(|len| *len == rest + len.to_string().len()).unwrap();
    format!("{len} {key}={value}\n")
}

/// A tar of these members, with its end.
pub fn tar(members: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = members.concat();
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}
