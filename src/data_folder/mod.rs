//! What a data folder is: which files make it one, and whether its parts belong together.
//!
//! ```text
//! names        the files that say what a folder is
//! part         whether a folder is a part of a drive, by what is in it
//! marks        a file with an id, a folder named after one
//! last_start   the mark of the last start: finds an older copy of a part
//! store_id     the id of the store, on the folder, `db/` and `content/`
//! state        compares all of these, before a folder is opened or a new drive created
//! ```

mod error;
mod last_start;
mod marks;
pub mod names;
pub mod part;
mod state;
mod store_id;

pub use error::DataFolderError;
pub use state::{FolderState, check_content, check_restored, check_vacant, compare};
pub use store_id::{drive_id, mark_complete, mark_parts, write_drive_id};
