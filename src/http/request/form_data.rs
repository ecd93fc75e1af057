//! Reads a form that is sent as `multipart/form-data` (RFC 7578) as it comes in: one field after the other, with its content
//! as a stream.
//!
//! Not with the crate `multer`: it keeps in memory what a fast client sends ahead, and headers of any length, and a stranger
//! sends these forms.
//!
//! Memory: a piece of the body, and up to [`HEADER_BYTES`] of the headers of a field.

use std::pin::Pin;

use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use bytes::{Buf as _, BytesMut};
use futures_util::stream::{self, Stream, StreamExt};

use super::body::cut;
use super::single_header;
use crate::api::problem::ProblemKind;
use crate::http::response::problem::{Problem, Result};

/// Bytes of the headers of a field: a name of 255 bytes fits however it is encoded.
const HEADER_BYTES: usize = 8 << 10;
/// RFC 2046 section 5.1.1.
const BOUNDARY_BYTES: usize = 70;
/// Bytes of all contents of a form that are read and not used, such as those of files that are refused.
const SKIPPED_BYTES: u64 = 1 << 30;

/// A form that comes in.
pub struct FormReader<S> {
    body: Pin<Box<S>>,
    /// Bytes of the body that are read and not used. The first line is a delimiter too: it gets the end of a line before it.
    unused: BytesMut,
    /// What ends a field: the end of a line, and the boundary in the next one.
    delimiter: Vec<u8>,
    /// Whether the delimiter after the content of the present field was read.
    is_at_end: bool,
    /// Bytes of contents that were read and not used.
    skipped: u64,
}

/// A field of a form.
#[derive(Debug, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    /// The name of its file, if it is one.
    pub file: Option<String>,
}

impl<S: Stream<Item = Result<Bytes>> + Send> FormReader<S> {
    /// Errors: [`ProblemKind::MediaType`] if the headers say that the body is something else.
    pub fn new(headers: &HeaderMap, body: S) -> Result<Self> {
        let sent = single_header(headers, &CONTENT_TYPE)?.unwrap_or_default();
        let refused =
            || Problem::new(ProblemKind::MediaType, "Send the form as multipart/form-data, with its boundary.");
        let boundary = boundary(sent).ok_or_else(refused)?;
        let delimiter = ["\r\n--", boundary].concat().into_bytes();
        Ok(Self { body: Box::pin(body), unused: BytesMut::from("\r\n"), delimiter, is_at_end: false, skipped: 0 })
    }

    /// The next field; none at the end of the form. Skips the content of the field before.
    ///
    /// Errors: [`ProblemKind::BodyTooLarge`] if that is more than is skipped in all.
    pub async fn next(&mut self) -> Result<Option<Field>> {
        while let Some(piece) = self.piece().await? {
            self.skipped = self.skipped.saturating_add(piece.len() as u64);
            if self.skipped > SKIPPED_BYTES {
                return Err(Problem::new(
                    ProblemKind::BodyTooLarge,
                    "The form has too much that is not stored: send the other files by another one.",
                ));
            }
        }
        // After a delimiter: `--` at the end of the form, else the end of the line.
        while self.unused.len() < 2 {
            self.fill().await?;
        }
        if self.unused.starts_with(b"--") {
            return Ok(None);
        }
        let headers = self.headers().await?;
        self.is_at_end = false;
        field(&headers).map(Some)
    }

    /// The content of the present field.
    pub fn content(&mut self) -> impl Stream<Item = Result<Bytes>> + Send {
        stream::try_unfold(self, |reader| async move { Ok(reader.piece().await?.map(|piece| (piece, reader))) })
    }

    /// The next bytes of the content; none at its end.
    async fn piece(&mut self) -> Result<Option<Bytes>> {
        while !self.is_at_end {
            let found = find(&self.unused, &self.delimiter);
            // Without one, its begin may be the last that was read.
            let content = found.unwrap_or((self.unused.len() + 1).saturating_sub(self.delimiter.len()));
            if content > 0 {
                return Ok(Some(self.unused.split_to(content).freeze()));
            }
            if found.is_some() {
                self.unused.advance(self.delimiter.len());
                self.is_at_end = true;
            } else {
                self.fill().await?;
            }
        }
        Ok(None)
    }

    /// The lines after a delimiter, up to the empty one.
    async fn headers(&mut self) -> Result<Bytes> {
        let mut read = 0;
        loop {
            // What was read before has no end: only its last bytes may be the begin of one.
            if let Some(end) = find(self.unused.get(read..).unwrap_or_default(), b"\r\n\r\n").map(|at| read + at) {
                let headers = self.unused.split_to(end).freeze();
                self.unused.advance(4);
                return Ok(headers);
            }
            if self.unused.len() > HEADER_BYTES {
                return Err(malformed());
            }
            read = self.unused.len().saturating_sub(3);
            self.fill().await?;
        }
    }

    /// Reads more.
    async fn fill(&mut self) -> Result<()> {
        let piece = self.body.next().await.ok_or_else(|| cut(&"the form has no end"))??;
        self.unused.extend_from_slice(&piece);
        Ok(())
    }
}

fn malformed() -> Problem {
    Problem::malformed("The form is not as a browser sends it (RFC 7578): send files by PUT.")
}

/// Where a pattern that begins with the end of a line begins.
fn find(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let rest = bytes.get(from..)?;
        let at = from + rest.iter().position(|byte| *byte == b'\r')?;
        if bytes.get(at..).is_some_and(|rest| rest.starts_with(pattern)) {
            return Some(at);
        }
        from = at + 1;
    }
}

/// The boundary in the media type of a form.
fn boundary(media_type: &str) -> Option<&str> {
    let (essence, parameters) = media_type.split_once(';')?;
    if !essence.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let boundary = parameter(parameters, "boundary")?;
    (!boundary.is_empty() && boundary.len() <= BOUNDARY_BYTES && boundary.is_ascii()).then_some(boundary)
}

/// The value of a parameter, quoted or not. Nothing is escaped in quotes: in the place of one in the name of a file, browsers
/// send `%22`.
fn parameter<'a>(mut parameters: &'a str, name: &str) -> Option<&'a str> {
    loop {
        let (key, rest) = parameters.split_once('=')?;
        let (value, rest) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => rest.split_at(rest.find(';').unwrap_or(rest.len())),
        };
        if key.trim_start_matches([';', ' ', '\t']).eq_ignore_ascii_case(name) {
            return Some(value.trim_end());
        }
        parameters = rest;
    }
}

/// The field that its headers describe.
fn field(headers: &[u8]) -> Result<Field> {
    let headers = std::str::from_utf8(headers).map_err(|_| malformed())?;
    let described = headers.split("\r\n").filter_map(|line| line.split_once(':'));
    let mut described = described.filter(|(header, _)| header.eq_ignore_ascii_case("content-disposition"));
    let (kind, parameters) = described.next().and_then(|(_, value)| value.split_once(';')).ok_or_else(malformed)?;
    if !kind.trim().eq_ignore_ascii_case("form-data") {
        return Err(malformed());
    }
    let value = |name| parameter(parameters, name).map(|value| value.replace("%22", "\""));
    Ok(Field { name: value("name").ok_or_else(malformed)?, file: value("filename") })
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const FORM: &str = "--x y\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n--x y\r\n\
        content-type: image/png\r\nCONTENT-DISPOSITION: Form-Data; filename=\"b; %22name=\u{e4}.png\"; name=files\r\n\r\n\
        \r\n\r\n--x\r\n-- x y\r\n--x y \r\nContent-Disposition: form-data; name=\"files\"; filename=\"\"\r\n\r\n\r\r\n--x y--\r\n";

    fn headers(media_type: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(media_type))])
    }

    /// The fields of a form that comes in pieces of so many bytes, or the status of its problem.
    async fn read(form: &[u8], size: usize) -> std::result::Result<Vec<(Field, Vec<u8>)>, ProblemKind> {
        let pieces: Vec<Result<Bytes>> = form.chunks(size).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        let headers = headers("multipart/form-data; charset=utf-8; boundary=\"x y\"");
        let mut reader = FormReader::new(&headers, stream::iter(pieces)).map_err(|problem| problem.kind())?;
        let mut fields = Vec::new();
        while let Some(field) = reader.next().await.map_err(|problem| problem.kind())? {
            let content: Vec<_> = reader.content().collect().await;
            let content: Result<Vec<Bytes>> = content.into_iter().collect();
            fields.push((field, content.map_err(|problem| problem.kind())?.concat()));
        }
        Ok(fields)
    }

    #[tokio::test]
    async fn fields_are_read_however_the_body_is_cut() {
        let field = |name: &str, file: Option<&str>, content: &str| {
            (Field { name: name.to_owned(), file: file.map(str::to_owned) }, content.as_bytes().to_vec())
        };
        let expected = vec![
            field("a", None, ""),
            field("files", Some("b; \"name=\u{e4}.png"), "\r\n\r\n--x\r\n-- x y"),
            field("files", Some(""), "\r"),
        ];
        for size in 1..=FORM.len() {
            assert_eq!(read(FORM.as_bytes(), size).await.as_ref(), Ok(&expected), "{size}");
        }
        assert_eq!(read(b"--x y--", 3).await, Ok(vec![]));
    }

    #[tokio::test]
    async fn what_is_left_of_a_field_is_skipped() {
        let pieces = stream::iter(FORM.as_bytes().chunks(7).map(|piece| Ok(Bytes::copy_from_slice(piece))));
        let mut reader = FormReader::new(&headers("multipart/form-data;boundary=x y"), pieces).unwrap();
        let mut names = Vec::new();
        while let Some(field) = reader.next().await.unwrap() {
            names.push(field.file);
            let _first = std::pin::pin!(reader.content()).next().await;
        }
        assert_eq!(names.len(), 3);
    }

    /// A file that is refused may be larger than any that is stored.
    #[tokio::test]
    async fn what_is_skipped_is_bounded() {
        let piece = Bytes::from(vec![b'x'; 1 << 20]);
        let header = "--x y\r\nContent-Disposition: form-data; name=\"files\"; filename=\"f\"\r\n\r\n";
        let pieces =
            stream::once(async { Ok(Bytes::from(header)) }).chain(stream::repeat_with(move || Ok(piece.clone())));
        let mut reader = FormReader::new(&headers("multipart/form-data;boundary=x y"), Box::pin(pieces)).unwrap();
        assert!(reader.next().await.unwrap().is_some());
        let refused = reader.next().await.err().map(|problem| problem.kind());
        assert_eq!(refused, Some(ProblemKind::BodyTooLarge));
    }

    #[tokio::test]
    async fn a_form_that_is_cut_or_malformed_is_refused() {
        let end = FORM.rfind("--").unwrap();
        for length in 0..end {
            assert_eq!(read(&FORM.as_bytes()[..length], 1_000).await, Err(ProblemKind::BodyCut), "{length}");
        }
        for bad in [
            "--x y\r\n\r\n--x y--",
            "--x y\r\nContent-Disposition: form-data; file=a\r\n\r\n\r\n--x y--",
            "--x y\r\nContent-Disposition: attachment; name=a\r\n\r\n\r\n--x y--",
            "--x y\r\nContent-Disposition: form-data\r\n\r\n\r\n--x y--",
            &["--x y\r\nContent-Disposition: form-data; name=", &"a".repeat(HEADER_BYTES)].concat(),
        ] {
            assert_eq!(read(bad.as_bytes(), 1_000).await, Err(ProblemKind::Malformed), "{bad}");
        }
        for other in
            ["text/plain", "multipart/form-data", "multipart/form-data; boundary=", "multipart/mixed; boundary=x"]
        {
            let refused = FormReader::new(&headers(other), stream::empty::<Result<Bytes>>());
            assert_eq!(refused.err().map(|problem| problem.kind()), Some(ProblemKind::MediaType), "{other}");
        }
    }
}
