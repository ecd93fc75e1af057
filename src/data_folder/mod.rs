//! What a data folder is: which files make it one, and whether its parts belong together.
//!
//! ```text
//! names        the files that show what a folder is
//! part         whether a folder is a part of a drive, by what is in it
//! id_files     a file with an id, a folder whose name ends with one
//! last_start   the id of the last start: finds an older copy of a part
//! store_id     the id of the store, in the folder, `db/` and `content/`
//! state        compares all of these before a folder is opened or a drive is created
//! ```

mod error;
mod id_files;
mod last_start;
pub mod names;
pub mod part;
mod state;
mod store_id;

pub use error::DataFolderError;
pub use state::{FolderState, check_content, check_restored, check_vacant, compare};
pub use store_id::{complete_ids, drive_id, write_drive_id, write_ids};
