//! Pages of lists that are read whole, such as that of the users.

use axum::http::Uri;
use axum::http::header::LINK;
use axum::response::Response;
use serde::Serialize;

use super::cursor::CursorScope;
use super::page::next_link;
use super::problem::Result;
use super::{headers, json, memory};
use crate::budget::Permit;
use crate::http::app::App;

/// Items of a page, at most.
const ITEMS: usize = 1_000;
/// Bytes of an item with a path, at most: a path has 4,096 bytes, each of which may be escaped.
pub const WITH_PATH: usize = 9 << 10;
/// Bytes of another item, at most: a name for people has 255 bytes, which may be escaped.
pub const SHORT: usize = 2 << 10;

/// How many items a page has, at most, by the limit that its request has.
pub fn items(limit: usize) -> usize {
    limit.min(ITEMS)
}

/// Memory for so many items of so many bytes. Wait for it before they are read.
pub async fn permit(app: &App, items: usize, item: usize) -> Result<Permit> {
    memory::take(app.drive.memory(), items * item).await
}

/// The items of a page, by their keys, and the cursor of the next one. `limit`: by [`items`]. `cursor`: that of the request.
pub fn page<T>(
    mut all: Vec<(String, T)>,
    (limit, cursor): (usize, Option<&str>),
    scope: &CursorScope,
) -> Result<(Vec<T>, Option<String>)> {
    let after = cursor.map(|cursor| scope.decode(cursor)).transpose()?;
    all.retain(|(key, _)| after.as_ref().is_none_or(|after| key.as_bytes() > after.as_slice()));
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    let is_more = all.len() > limit;
    all.truncate(limit);
    let next = all.last().filter(|_| is_more).map(|(key, _)| scope.encode(key.as_bytes())).transpose()?;
    Ok((all.into_iter().map(|(_, item)| item).collect(), next))
}

/// The response with a page. `uri`: the target of the request.
pub fn response(page: &impl Serialize, next: Option<&str>, uri: &Uri, permit: Permit) -> Result<Response> {
    let mut response = json::large(page, permit)?;
    if let Some(cursor) = next {
        response.headers_mut().insert(LINK, headers::value(next_link(uri, cursor))?);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_has_each_item_once_in_order() {
        let scope = CursorScope::new("test");
        let all: Vec<_> = [3, 1, 5, 2, 4].map(|n| (n.to_string(), n)).into();
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let (items, next) = page(all.clone(), (2, cursor.as_deref()), &scope).unwrap();
            found.push(items);
            let Some(next) = next else { break };
            cursor = Some(next);
        }
        assert_eq!(found, [vec![1, 2], vec![3, 4], vec![5]]);
        assert!(page(all, (2, Some("x")), &scope).is_err());
    }
}
