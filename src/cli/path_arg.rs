//! Paths on the drive, on the command line.

use rowdrive::schema::DrivePath;

/// A path on the drive, with its text on the command line.
#[derive(Clone, Debug)]
pub struct PathArg {
    pub path: DrivePath,
    /// The text, unchanged: in requests a slash at the end means a directory.
    pub text: String,
}

impl PathArg {
    pub fn parse(text: &str) -> Result<Self, String> {
        let path = DrivePath::parse(text).map_err(|error| format!("{error}, as in /photos/2026"))?;
        Ok(Self { path, text: text.to_owned() })
    }

    pub fn is_directory(&self) -> bool {
        self.text.ends_with('/')
    }
}
