//! The script of the page of an upload share, run by Node.js with what a browser would give it.

use std::process::Command;

use serde_json::json;

use super::Api;

/// A form with files of these names, of which a browser has sent a third and then all. The second one is refused, for
/// the third one there is no answer, and the fourth one is refused by a proxy.
const BROWSER: &str = r#"
const said = [];
let submit;
const names = ["a b", "full", "lost", "proxy"];
globalThis.document = {
  querySelector: () => ({
    elements: { files: { files: names.map(name => ({ name, lastModified: 0 })) } },
    reset() {},
    addEventListener(event, run) { submit = run; },
  }),
  getElementById: () => ({ appendChild: line => line }),
  createElement: () => ({ set textContent(text) { said.push(text); } }),
};
globalThis.XMLHttpRequest = class {
  upload = {};
  open(method, target) { this.sent = method + " " + target; }
  send(file) {
    said.push(this.sent);
    for (const loaded of [1, 3]) {
      this.upload.onprogress({ lengthComputable: true, loaded, total: 3 });
    }
    const answers = { full: [507, '{"detail":"It is full."}'], proxy: [502, "<html>"] };
    [this.status, this.responseText] = answers[file.name] || [201, "{}"];
    file.name === "lost" ? this.onerror() : this.onload();
  }
};
"#;

const SAID: &str = "\
a b: is being sent
PUT fs/a%20b?modified=1970-01-01T00%3A00%3A00.000Z
a b: is being sent, 33 %
a b: is being sent, 100 %
a b: sent
full: is being sent
PUT fs/full?modified=1970-01-01T00%3A00%3A00.000Z
full: is being sent, 33 %
full: is being sent, 100 %
full: not sent. It is full.
lost: is being sent
PUT fs/lost?modified=1970-01-01T00%3A00%3A00.000Z
lost: is being sent, 33 %
lost: is being sent, 100 %
lost: not sent: the connection is lost
proxy: is being sent
PUT fs/proxy?modified=1970-01-01T00%3A00%3A00.000Z
proxy: is being sent, 33 %
proxy: is being sent, 100 %
proxy: not sent. Open the link again.
";

#[tokio::test]
async fn the_script_says_how_much_of_a_file_is_sent_and_what_became_of_it() {
    let api = Api::with_users().await;
    let made = api.by("tom", "POST", "/v1/shares", json!({"path": "/home/tom", "mode": "upload"})).await.is(201).json();
    let page = api.app.get(made["url"].as_str().unwrap()).await.is(200);
    let script = page.text().split("<script>").nth(1).unwrap().split("</script>").next().unwrap();
    let run = format!(
        "{BROWSER}{{{script}}}\nsubmit({{ preventDefault() {{}} }}).then(() => console.log(said.join(\"\\n\")));"
    );
    let ran = Command::new("node").arg("--eval").arg(run).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(String::from_utf8(ran.stdout).unwrap(), SAID);
}
