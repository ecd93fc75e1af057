//! Who may call which route with which method.

use std::collections::HashMap;

use axum::http::Method;

/// Who may call a route, on a drive with users. Without users anybody may call all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// Anybody. No credential is read, and the answer tells nothing of the drive.
    Anybody,
    /// Anybody who knows the secret of a share, which is in the path. No other credential counts but its password.
    Share(ShareRoute),
    /// Every user, with any credential that is valid.
    Users,
    /// Admins, with a credential that may do all that they may.
    Admins,
}

impl Callers {
    /// Whether who has reached the handler has proved a user, on a drive with users.
    pub fn need_user(self) -> bool {
        matches!(self, Self::Users | Self::Admins)
    }
}

/// What a route below the link of a share is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareRoute {
    /// To get to the page of the share, and to send its password: nobody needs the password before.
    Enter,
    /// The page, of every share.
    Page,
    /// To list and download. By an upload share there is none of it.
    Read,
    /// To add files. A share to read has no such method.
    Upload,
    /// Nothing: there is no such route, or no such method.
    Nothing,
}

/// The callers of all routes.
#[derive(Clone, Debug, Default)]
pub struct CallersOfRoutes(HashMap<&'static str, Vec<(Method, Callers)>>);

impl CallersOfRoutes {
    /// Adds the methods of a route.
    pub fn add(&mut self, pattern: &'static str, methods: Vec<(Method, Callers)>) {
        self.0.entry(pattern).or_default().extend(methods);
    }

    /// The callers of a route and method. Where there is no route or no method, a request without a credential is
    /// refused too: it does not learn what there is.
    pub fn of(&self, pattern: Option<&str>, method: &Method) -> Callers {
        // A route for GET answers HEAD as well.
        let is_asked = |of: &Method| of == method || (*method == Method::HEAD && *of == Method::GET);
        let mut methods = pattern.and_then(|pattern| self.0.get(pattern)).into_iter().flatten();
        methods.find(|(of, _)| is_asked(of)).map_or(Callers::Users, |(_, callers)| *callers)
    }

    /// The methods of a route, as `Allow` lists them. Only by a share to read does anyone learn which there are.
    pub fn allow(&self, pattern: &str) -> String {
        let is_allowed = |(_, callers): &&(Method, Callers)| *callers != Callers::Share(ShareRoute::Upload);
        let methods = self.0.get(pattern).into_iter().flatten().filter(is_allowed);
        let names = methods.map(|(method, _)| if *method == Method::GET { "GET, HEAD" } else { method.as_str() });
        names.collect::<Vec<_>>().join(", ")
    }

    /// Every route and method.
    pub fn all(&self) -> Vec<(&'static str, Method, Callers)> {
        let mut all = Vec::new();
        for (pattern, methods) in &self.0 {
            all.extend(methods.iter().map(|(method, callers)| (*pattern, method.clone(), *callers)));
        }
        all
    }
}
