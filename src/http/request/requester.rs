//! Who asks by a request, and the drive as he sees it.

use std::convert::Infallible;

use axum::extract::{FromRequestParts, Request};
use axum::http::Extensions;
use axum::http::request::Parts;

use super::client::address;
use crate::auth::{Credential, Requester};
use crate::client_net::ClientNet;
use crate::drive::UserDrive;
use crate::http::app::App;

/// Keeps who has sent a request, for its handler.
pub fn set(request: &mut Request, requester: Requester) {
    request.extensions_mut().insert(requester);
}

/// The drive as the requester of a request sees it. A request that has proved nothing is nobody's: the drive refuses it if
/// there are users.
pub fn drive_of(app: &App, extensions: &Extensions) -> UserDrive {
    let requester = extensions.get::<Requester>().unwrap_or(&app.nobody).clone();
    app.drive.for_requester(requester).of_client(ClientNet::new(address(extensions)))
}

/// What a request has proved, for its handler; that of nobody on a drive without users.
impl FromRequestParts<App> for Credential {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, Infallible> {
        let credential = parts.extensions.get::<Requester>().and_then(Requester::credential);
        Ok(credential.cloned().unwrap_or_else(Self::nobody))
    }
}

impl FromRequestParts<App> for UserDrive {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        Ok(drive_of(app, &parts.extensions))
    }
}
