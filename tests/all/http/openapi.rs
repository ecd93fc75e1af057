//! The API description: it contains each route, and the answers match it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::test_app::{TestApp, TestResponse};

pub async fn description(app: &TestApp) -> Value {
    let answer = app.send("GET", "/openapi.json", &[], "").await;
    assert_eq!((answer.status, answer.headers["content-type"].to_str().unwrap()), (200, "application/json"));
    answer.json()
}

/// Method, path and description of each operation.
pub fn operations(api: &Value) -> Vec<(String, String, Value)> {
    let paths = api["paths"].as_object().unwrap().iter();
    let all = paths.flat_map(|(path, item)| item.as_object().unwrap().iter().map(move |of| (path, of)));
    let is_method = |word: &str| ["get", "head", "put", "post", "patch", "delete"].contains(&word);
    all.filter(|(_, (word, _))| is_method(word))
        .map(|(path, (method, of))| (method.to_uppercase(), path.clone(), of.clone()))
        .collect()
}

#[tokio::test]
async fn every_route_is_described_once() {
    let app = TestApp::new().await;
    let api = description(&app).await;
    assert_eq!(api["openapi"], "3.1.0");
    let operations = operations(&api);
    let described: BTreeSet<_> = operations.iter().map(|(method, path, _)| format!("{method} {path}")).collect();
    let routes = [
        "DELETE /v1/fs/{path}",
        "DELETE /v1/fs/{path}/",
        "DELETE /v1/grants",
        "DELETE /v1/session",
        "DELETE /v1/sessions",
        "DELETE /v1/sessions/{id}",
        "DELETE /v1/shares/{id}",
        "DELETE /v1/tokens/{id}",
        "DELETE /v1/users/{name}",
        "GET /healthz",
        "GET /metrics",
        "GET /readyz",
        "GET /s/{secret}/",
        "GET /s/{secret}/fs/{path}",
        "GET /s/{secret}/fs/{path}/",
        "GET /v1/files",
        "GET /v1/find",
        "GET /v1/fs/",
        "GET /v1/fs/{path}",
        "GET /v1/fs/{path}/",
        "GET /v1/grants",
        "GET /v1/session",
        "GET /v1/sessions",
        "GET /v1/shares",
        "GET /v1/stat/{path}",
        "GET /v1/tokens",
        "GET /v1/users",
        "GET /v1/users/{name}",
        "HEAD /v1/fs/{path}",
        "PATCH /v1/users/{name}",
        "POST /s/{secret}/",
        "POST /s/{secret}/login",
        "POST /v1/copy",
        "POST /v1/move",
        "POST /v1/session",
        "POST /v1/shares",
        "POST /v1/tokens",
        "POST /v1/users",
        "PUT /s/{secret}/fs/{path}",
        "PUT /v1/fs/",
        "PUT /v1/fs/{path}",
        "PUT /v1/fs/{path}/",
        "PUT /v1/grants",
    ];
    assert_eq!(described, routes.map(str::to_owned).into());
    let ids: BTreeSet<_> = operations.iter().map(|(_, _, of)| of["operationId"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids.len(), operations.len());
}

/// An unknown parameter is refused with a list of the known ones: the description has the same list.
#[tokio::test]
async fn the_documented_parameters_are_those_of_the_handlers() {
    let app = TestApp::new().await;
    app.send("PUT", "/v1/fs/d/f", &[], "hello").await;
    for (method, path, operation) in operations(&description(&app).await) {
        if !path.starts_with("/v1/") || method == "HEAD" {
            continue;
        }
        let target = path.replace("{path}/", "d/").replace("{path}", "d/f");
        let target = target.replace("{name}", "x").replace("{id}", "x") + "?nonsense=1";
        let body = if method == "POST" { json!({"from": "/d/f", "to": "/e"}).to_string() } else { String::new() };
        let answer = app.send(&method, &target, &[("content-type", "application/json")], body).await;
        assert_eq!(answer.status, 400, "{method} {target}");
        let said = answer.json()["detail"].as_str().unwrap().to_owned();
        let known = said.split_once("use ").map_or("", |(_, known)| known.trim_end_matches('.'));
        let known: BTreeSet<_> = known.split(", ").filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let described = operation["parameters"].as_array().into_iter().flatten();
        let described = described.filter(|p| p["in"] == "query").map(|p| p["name"].as_str().unwrap().to_owned());
        assert_eq!(described.collect::<BTreeSet<_>>(), known, "{method} {path}: {said}");
    }
}

/// The schema that the description has for an answer, or why there is none.
pub fn schema<'a>(operation: &'a Value, answer: &TestResponse) -> Result<Option<&'a Value>, String> {
    let status = answer.status.to_string();
    let response = operation["responses"].get(&status).ok_or_else(|| format!("status {status} is not described"))?;
    let Some(content) = response.get("content").and_then(Value::as_object) else {
        return if answer.body.is_empty() { Ok(None) } else { Err(format!("a body of {status} is not described")) };
    };
    let mime = answer.headers["content-type"].to_str().unwrap().split(';').next().unwrap().to_owned();
    let mime = content.keys().find(|key| key.split(';').next() == Some(&mime) || *key == "*/*");
    mime.map(|mime| Some(&content[mime]["schema"])).ok_or_else(|| format!("{status} has another media type"))
}

/// Whether a value matches its schema. Supports the parts of JSON Schema that the description uses.
pub fn fits(api: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let mut known = BTreeSet::new();
    holds(api, schema, value, &mut known)?;
    let unknown = value.as_object().into_iter().flatten().find(|(name, _)| !known.contains(name.as_str()));
    unknown.map_or(Ok(()), |(name, _)| Err(format!("{name} is not described")))
}

/// Like [`fits`], but allows members that are not described; adds the names of described members to `known`.
fn holds<'a>(api: &'a Value, schema: &'a Value, value: &Value, known: &mut BTreeSet<&'a str>) -> Result<(), String> {
    if let Some(to) = schema["$ref"].as_str() {
        return holds(api, api.pointer(to.trim_start_matches('#')).unwrap(), value, known);
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        holds(api, part, value, known)?;
    }
    for part in schema["oneOf"].as_array().into_iter().flatten() {
        if holds(api, part, value, known).is_ok() {
            break;
        }
    }
    let of_type = |name: &str| match name {
        "string" => value.is_string(),
        "integer" => value.is_u64() || value.is_i64(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        other => panic!("{other}"),
    };
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(many) => many.iter().map(|one| one.as_str().unwrap()).collect(),
        _ => vec![],
    };
    if !types.is_empty() && !types.iter().any(|name| of_type(name)) {
        return Err(format!("{value} is none of {types:?}"));
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        value.get(name.as_str().unwrap()).ok_or_else(|| format!("{name} is missing in {value}"))?;
    }
    for (name, of) in schema["properties"].as_object().into_iter().flatten() {
        known.insert(name);
        value.get(name).map_or(Ok(()), |inner| match inner {
            Value::Object(_) => fits(api, of, inner),
            _ => holds(api, of, inner, known),
        })?;
    }
    value.as_array().into_iter().flatten().try_for_each(|inner| fits(api, &schema["items"], inner))
}

/// Method, described path, target, headers, body, status.
type OperationCase<'a> = (&'a str, &'a str, &'a str, &'a [(&'a str, &'a str)], String, u16);

/// Every operation with valid and invalid requests: status, media type and members of each answer are described.
#[tokio::test]
async fn responses_match_the_schema() {
    let app = TestApp::new().await;
    let api = description(&app).await;
    let operations = operations(&api);
    let json = [("content-type", "application/json")];
    let foreign = [json[0], ("origin", "http://elsewhere.example")];
    let relocate = |from: &str, to: &str| json!({"from": from, "to": to}).to_string();
    let cases: Vec<OperationCase> = vec![
        ("PUT", "/v1/fs/{path}", "/v1/fs/d/f", &[], "hello".into(), 201),
        ("PUT", "/v1/fs/{path}", "/v1/fs/d/f", &[], "other".into(), 200),
        ("PUT", "/v1/fs/{path}", "/v1/fs/d/f", &[("if-none-match", "*")], "x".into(), 412),
        ("PUT", "/v1/fs/{path}", "/v1/fs/d", &[], "x".into(), 409),
        ("PUT", "/v1/fs/{path}", "/v1/fs/d/f", &[("content-encoding", "gzip")], "x".into(), 415),
        ("PUT", "/v1/fs/{path}", "/v1/fs/d/%00", &[], "x".into(), 400),
        ("PUT", "/v1/fs/{path}/", "/v1/fs/e/", &[], String::new(), 201),
        ("PUT", "/v1/fs/{path}/", "/v1/fs/e/", &[], String::new(), 200),
        ("GET", "/v1/fs/{path}", "/v1/fs/d/f", &[], String::new(), 200),
        ("GET", "/v1/fs/{path}", "/v1/fs/d/f", &[("range", "bytes=0-1")], String::new(), 206),
        ("GET", "/v1/fs/{path}", "/v1/fs/d/f", &[("range", "bytes=99-")], String::new(), 416),
        ("GET", "/v1/fs/{path}", "/v1/fs/d/f", &[("if-match", "\"other\"")], String::new(), 412),
        ("GET", "/v1/fs/{path}", "/v1/fs/d", &[], String::new(), 308),
        ("GET", "/v1/fs/{path}", "/v1/fs/nothing", &[], String::new(), 404),
        ("HEAD", "/v1/fs/{path}", "/v1/fs/d/f", &[], String::new(), 200),
        ("GET", "/v1/fs/", "/v1/fs/", &[], String::new(), 200),
        ("PUT", "/v1/fs/", "/v1/fs/", &[], String::new(), 200),
        ("GET", "/v1/fs/{path}/", "/v1/fs/d/?limit=1", &[], String::new(), 200),
        ("GET", "/v1/fs/{path}/", "/v1/fs/d/", &[("accept", "text/plain")], String::new(), 200),
        ("GET", "/v1/fs/{path}/", "/v1/fs/d/?limit=0", &[], String::new(), 400),
        ("GET", "/v1/stat/{path}", "/v1/stat/d/f", &[], String::new(), 200),
        ("GET", "/v1/stat/{path}", "/v1/stat/d", &[], String::new(), 200),
        ("GET", "/v1/stat/{path}", "/v1/stat/d", &[("host", "elsewhere.example")], String::new(), 421),
        ("GET", "/v1/files", "/v1/files?under=/d&type=*/*", &[], String::new(), 400),
        ("GET", "/v1/files", "/v1/files?under=/d&limit=1", &[], String::new(), 200),
        ("GET", "/v1/files", "/v1/files?under=/nothing", &[], String::new(), 404),
        ("GET", "/v1/find", "/v1/find?name=f*", &[], String::new(), 200),
        ("POST", "/v1/copy", "/v1/copy", &json, relocate("/d/f", "/d/g"), 201),
        ("POST", "/v1/copy", "/v1/copy", &json, relocate("/d", "/c"), 201),
        ("POST", "/v1/copy", "/v1/copy", &[], relocate("/d", "/c2"), 415),
        ("POST", "/v1/move", "/v1/move", &json, relocate("/d/g", "/d/h"), 201),
        ("POST", "/v1/move", "/v1/move", &json, relocate("/d/g", "/d/h"), 404),
        ("POST", "/v1/move", "/v1/move", &foreign, relocate("/d/h", "/d/i"), 403),
        ("DELETE", "/v1/fs/{path}", "/v1/fs/d/h", &[], String::new(), 204),
        ("DELETE", "/v1/fs/{path}/", "/v1/fs/d/", &[], String::new(), 409),
        ("DELETE", "/v1/fs/{path}/", "/v1/fs/d/?recursive=true", &[], String::new(), 204),
        ("GET", "/healthz", "/healthz", &[], String::new(), 200),
        ("GET", "/readyz", "/readyz", &[], String::new(), 200),
        ("GET", "/metrics", "/metrics", &[], String::new(), 200),
    ];
    let reached: BTreeSet<_> = cases.iter().map(|(method, path, ..)| format!("{method} {path}")).collect();
    // Those on users, rights and shares are in `accounts`.
    let is_access = |of: &Value| ["access", "shares"].contains(&of["tags"][0].as_str().unwrap());
    assert_eq!(reached.len(), operations.iter().filter(|(_, _, of)| !is_access(of)).count());
    for (method, path, target, headers, body, status) in cases {
        let (_, _, operation) = operations.iter().find(|(m, p, _)| m == method && p == path).unwrap();
        let answer = app.send(method, target, headers, body).await;
        assert_eq!(answer.status, status, "{method} {target}");
        let schema = schema(operation, &answer).unwrap_or_else(|why| panic!("{method} {target}: {why}"));
        let is_json = answer.headers.get("content-type").is_some_and(|mime| mime.to_str().unwrap().ends_with("json"));
        if let Some(schema) = schema.filter(|_| is_json) {
            fits(&api, schema, &answer.json()).unwrap_or_else(|why| panic!("{method} {target}: {why}"));
        }
    }
}

/// Only HTTP/1.0 requests get a 411, and the cases above use HTTP/1.1.
#[tokio::test]
async fn only_uploads_of_files_and_tars_document_411() {
    let api = description(&TestApp::new().await).await;
    let described = operations(&api).into_iter().filter(|(_, _, of)| of["responses"].get("411").is_some());
    let described: Vec<_> = described.map(|(method, path, _)| format!("{method} {path}")).collect();
    assert_eq!(described, ["PUT /s/{secret}/fs/{path}", "PUT /v1/fs/", "PUT /v1/fs/{path}", "PUT /v1/fs/{path}/"]);
}

#[tokio::test]
async fn the_page_loads_nothing_from_elsewhere() {
    let app = TestApp::new().await;
    assert_eq!(app.send("GET", "/docs", &[], "").await.headers["location"], "/docs/");
    let page = app.send("GET", "/docs/", &[], "").await;
    assert_eq!(page.header("x-frame-options"), Some("DENY"));
    assert!(page.header("content-security-policy").unwrap().contains("frame-ancestors 'none'"), "{page:?}");
    let text = String::from_utf8(page.body.to_vec()).unwrap();
    assert!(!text.contains("//"), "{text}");
    for part in text.split(['"']).filter(|part| part.ends_with(".js") || part.ends_with(".css")) {
        let asset = app.send("GET", &format!("/docs/{part}"), &[], "").await;
        assert_eq!(
            (asset.status, asset.headers["content-security-policy"].to_str().unwrap().contains("'self'")),
            (200, true)
        );
        assert!(asset.body.len() > 50, "{part}");
    }
    assert_eq!(app.send("GET", "/docs/other.js", &[], "").await.status, 404);
}
