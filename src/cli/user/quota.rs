//! `rowdrive user quota`: what a user has, and may have.

use std::io::{self, Write};

use clap::Args;
use indicatif::HumanBytes;
use reqwest::Method;
use rowdrive::api::account::{QuotaChangeJson, UserChangeRequest, UserJson};

use super::{request_of, words};
use crate::cli::request::{Out, RequestArgs, Result};
use crate::cli::{CommandOutcome, name_arg, size_arg};

/// Show what a user has and may have, or let him have more or less. What he has stays.
#[derive(Args)]
pub struct Quota {
    #[arg(value_name = "NAME", value_parser = name_arg::user)]
    name: String,
    /// The most bytes of all his files, as in 100GiB, or none for no limit; without it, that stays.
    #[arg(long, value_name = "SIZE", value_parser = bytes, allow_negative_numbers = true)]
    bytes: Option<Limit>,
    /// The most files and folders, or none for no limit; without it, that stays.
    #[arg(long, value_name = "N", value_parser = files, allow_negative_numbers = true)]
    files: Option<Limit>,
    #[command(flatten)]
    request: RequestArgs,
}

/// A limit, if it is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Limit(Option<u64>);

impl Quota {
    pub fn run(self) -> Result<CommandOutcome> {
        self.request.run(async |client, out| {
            let [bytes, files] = [self.bytes, self.files].map(|limit| limit.map(|Limit(limit)| limit));
            let request = if bytes.is_none() && files.is_none() {
                request_of(client, Method::GET, &self.name)
            } else {
                let quota = Some(QuotaChangeJson { bytes, files });
                let change = UserChangeRequest { quota, ..UserChangeRequest::default() };
                request_of(client, Method::PATCH, &self.name).json(&change)
            };
            let user = client.text(request).await?;
            self.request.print((client, out), &user, line)
        })
    }
}

/// Prints a user in one line, with what he has and may have.
pub fn line(out: &mut Out, user: &UserJson) -> io::Result<()> {
    words(out, user)?;
    write!(out, "  {}", HumanBytes(user.usage.bytes))?;
    if let Some(limit) = user.quota.bytes {
        write!(out, " of {}", HumanBytes(limit))?;
    }
    write!(out, "  {}", user.usage.files)?;
    if let Some(limit) = user.quota.files {
        write!(out, " of {limit}")?;
    }
    writeln!(out, " files and folders")
}

fn bytes(text: &str) -> std::result::Result<Limit, String> {
    let limit = if text == "none" { None } else { Some(size_arg::parse(text)?) };
    Ok(Limit(limit))
}

fn files(text: &str) -> std::result::Result<Limit, &'static str> {
    let limit = (text != "none").then(|| text.parse()).transpose();
    limit.map(Limit).map_err(|_| "write a number of files and folders, or none for no limit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_number_or_none() {
        assert_eq!((bytes("none"), files("none")), (Ok(Limit(None)), Ok(Limit(None))));
        assert_eq!((bytes("1KiB"), files("10")), (Ok(Limit(Some(1024))), Ok(Limit(Some(10)))));
        for bad in ["", "None", "-1", "many"] {
            assert!(bytes(bad).is_err() && files(bad).is_err(), "{bad}");
        }
    }
}
