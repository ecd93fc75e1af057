//! Revokes a token or a share: both are listed with an id.

use clap::Args;
use reqwest::Method;
use uuid::Uuid;

use super::request::{RequestArgs, Result, of_user};
use super::{CommandOutcome, name_arg};

#[derive(Args)]
pub struct SecretArg {
    /// Its id, from the list.
    #[arg(value_name = "ID", value_parser = id)]
    id: Uuid,
    /// That of another user, for an admin.
    #[arg(long, value_name = "NAME", value_parser = name_arg::user)]
    of: Option<String>,
    #[command(flatten)]
    request: RequestArgs,
}

impl SecretArg {
    /// Revokes it. `resource`: the path of those of its kind.
    pub fn revoke(self, resource: &str) -> Result<CommandOutcome> {
        self.request.run(async |client, _| {
            let secret = [resource, "/", &self.id.to_string()].concat();
            client.send(client.resource_request(Method::DELETE, &secret, &of_user(self.of.as_ref()))).await?;
            Ok(())
        })
    }
}

/// What is no id could be part of another address.
fn id(text: &str) -> Result<Uuid, &'static str> {
    Uuid::try_parse(text).map_err(|_| "write the id as the list shows it, as in 0192e4a0-5b7c-7d3e-8f21-9c4b6a1d2e3f")
}
