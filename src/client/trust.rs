//! Whose certificates the client accepts, and why it has refused one.

use std::error::Error;
use std::fs;
use std::path::Path;

use reqwest::Certificate;
use rustls::{CertificateError, InvalidMessage};

use super::cause::chain;
use super::{ClientError, Result};

/// The certificates in a PEM file.
pub fn certificates(ca: &Path) -> Result<Vec<Certificate>> {
    let unusable = |cause: String| ClientError::Ca(ca.to_owned(), cause);
    let bytes = fs::read(ca).map_err(|error| unusable(error.to_string()))?;
    let found = Certificate::from_pem_bundle(&bytes).unwrap_or_default();
    if found.is_empty() {
        return Err(unusable("it has no certificate in PEM".to_owned()));
    }
    Ok(found)
}

/// Why the client cannot be made.
pub fn build_error(server: &str, ca: Option<&Path>, cause: String) -> ClientError {
    match ca {
        Some(ca) => ClientError::Ca(ca.to_owned(), cause),
        None => ClientError::Untrusted(server.to_owned(), format!("{cause}; name the certificate of its CA with --ca")),
    }
}

/// Why the server is not trusted, if that was the error. `ca`: the file with the certificates of the only trusted CAs.
pub fn refusal(error: &reqwest::Error, ca: Option<&Path>) -> Option<String> {
    match tls_error(error)? {
        // The signature is bad if the CA has the name of one that is known here.
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => {
            Some(unknown_ca(ca))
        }
        rustls::Error::InvalidCertificate(error) => Some(of_certificate(error)),
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            Some("it does not speak https; begin its address with http://".to_owned())
        }
        _ => None,
    }
}

fn of_certificate(error: &CertificateError) -> String {
    use CertificateError::{
        Expired, ExpiredContext, NotValidForName, NotValidForNameContext, NotValidYet, NotValidYetContext,
    };
    let what = match error {
        Expired | ExpiredContext { .. } => "its certificate has expired: renew it, or set the clock of this machine",
        NotValidYet | NotValidYetContext { .. } => "its certificate is not valid yet: check the clock of this machine",
        NotValidForName | NotValidForNameContext { .. } => {
            "its certificate is for another name: connect by a name that it has, or renew it with this one"
        }
        _ => "its certificate is not accepted",
    };
    format!("{what} ({error})")
}

fn unknown_ca(ca: Option<&Path>) -> String {
    let Some(ca) = ca else {
        return "its certificate is of a CA that is not known here; name the certificate of that CA with --ca"
            .to_owned();
    };
    format!(
        "its certificate is not signed by the CA in {}, the file of --ca; check that it has the certificate of the CA that \
         issued the server's, and that this is the address of your server",
        ca.display()
    )
}

/// The error of TLS that caused this one.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    chain(error).find_map(|error| error.downcast_ref())
}
