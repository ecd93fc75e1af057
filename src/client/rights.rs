//! What a user may do, said to him when he is refused something.

use std::time::Duration;

use reqwest::Method;
use rowdrive::api::account::{RightsJson, SessionJson};
use rowdrive::api::path;
use rowdrive::api::rights::RightJson;

use super::{ClientError, DriveClient, Result, ServerProblem};
use crate::local_fs::printable;

/// Bytes of an answer: a user has a thousand grants at most.
const LONGEST: usize = 8 << 20;
/// Directories that are named.
const NAMED: usize = 5;
/// The refusal is printed after so long, if the server does not say what the user may do.
const TIMEOUT: Duration = Duration::from_secs(5);

impl DriveClient {
    /// Who the user is, and what he may do by his credential.
    pub async fn session(&self) -> Result<SessionJson> {
        let mut response = self.send(self.resource_request(Method::GET, path::SESSION, &[])).await?;
        let mut json = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|error| self.transport_error(&error))? {
            json.extend_from_slice(&piece);
            if json.len() > LONGEST {
                let what = "what the user may do takes too many bytes".to_owned();
                return Err(ClientError::UnexpectedAnswer(self.display_url().to_owned(), what));
            }
        }
        self.parse(&String::from_utf8_lossy(&json))
    }
}

/// The problem with what the user may do, if it is that he has no right to what was asked, and nothing else is said of
/// it.
pub async fn explained(client: &DriveClient, problem: ServerProblem) -> ServerProblem {
    if !problem.is_lack_of_right() || problem.has_remedy() {
        return problem;
    }
    let is_by_token = client.credential().is_some_and(|credential| credential.password().is_none());
    let session = tokio::time::timeout(TIMEOUT, client.session()).await;
    let session = session.ok().and_then(Result::ok);
    match session.and_then(|session| rights_in_words(&session, is_by_token)) {
        Some(rights) => problem.with_remedy(rights),
        None => problem,
    }
}

/// None of who may do everything, and on a drive without users.
fn rights_in_words(session: &SessionJson, is_by_token: bool) -> Option<String> {
    let user = session.user.as_ref().filter(|_| !session.admin)?;
    let user = if is_by_token { "this token".to_owned() } else { printable(user.as_ref()) };
    let rights: Vec<_> = session.rights.iter().filter(|of| !of.rights.is_empty()).collect();
    if rights.is_empty() {
        return Some(format!("{user} has no right on any folder"));
    }
    let named: Vec<_> = rights.iter().take(NAMED).map(|of| of_directory(of)).collect();
    let others = match rights.len().saturating_sub(NAMED) {
        0 => String::new(),
        1 => ", and in one more folder".to_owned(),
        many => format!(", and in {many} more folders"),
    };
    Some(format!("{user} may {}{others}", named.join(", ")))
}

fn of_directory(RightsJson { path, rights }: &RightsJson) -> String {
    let words = rights.iter().map(|right| match right {
        RightJson::Read => "read",
        RightJson::Write => "write",
        RightJson::Share => "share",
    });
    let words: Vec<_> = words.collect();
    let words = match words.split_last() {
        Some((last, before)) if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => words.concat(),
    };
    format!("{words} in {}", printable(path.as_ref()))
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn rights_are_told_of_some_directories() {
        let words = |user: Option<&str>, admin: bool, many: usize| {
            let rights = (0..many).map(|n| match n {
                0 => json!({"path": "/home/tom", "rights": ["read", "write", "share"]}),
                n => json!({"path": format!("/{n}\u{7}"), "rights": ["read"]}),
            });
            let rights: Vec<_> = rights.collect();
            let nothing = json!({"bytes": null, "files": null});
            let usage = json!({"bytes": 0, "files": 0});
            let session = json!({"user": user, "admin": admin, "rights": rights, "quota": nothing, "usage": usage});
            rights_in_words(&from_value(session).unwrap(), false)
        };
        assert_eq!((words(None, true, 1), words(Some("eve"), true, 1)), (None, None));
        assert_eq!(words(Some("tom"), false, 0).unwrap(), "tom has no right on any folder");
        let home = "tom may read, write and share in /home/tom";
        assert_eq!(words(Some("tom"), false, 1).unwrap(), home);
        let five = words(Some("tom"), false, 5).unwrap();
        assert!(five.starts_with(&format!("{home}, read in /1")) && !five.contains('\u{7}'), "{five}");
        assert_eq!(words(Some("tom"), false, 6).unwrap(), format!("{five}, and in one more folder"));
        assert_eq!(words(Some("tom"), false, 7).unwrap(), format!("{five}, and in 2 more folders"));
    }
}
