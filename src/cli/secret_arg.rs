//! Ends a token or a link: both are listed with an id.

use clap::Args;
use reqwest::Method;
use rowdrive::api::path;

use super::CommandOutcome;
use super::request::{RequestArgs, Result, of_user};

#[derive(Args)]
pub struct SecretArg {
    /// Its id, from the list.
    #[arg(value_name = "ID")]
    id: String,
    /// That of another user, for an admin.
    #[arg(long, value_name = "NAME")]
    of: Option<String>,
    #[command(flatten)]
    request: RequestArgs,
}

impl SecretArg {
    /// Ends it. `resource`: the path of those of its kind.
    pub fn end(self, resource: &str) -> Result<CommandOutcome> {
        self.request.run(async |client, _| {
            let secret = [resource, "/", &path::encode(&self.id)].concat();
            client.send(client.resource_request(Method::DELETE, &secret, &of_user(self.of.as_ref()))).await?;
            Ok(())
        })
    }
}
