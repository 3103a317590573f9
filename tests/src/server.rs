//! A server of objects for tests: HTTP with ranges and `ETag`s, and of S3 what reading takes; it fails as it is told to.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How answers to ranges are spoilt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spoilt {
    /// Answered with this status.
    Status(u16),
    /// Half of the body, then nothing.
    Half,
    /// Nothing for so long.
    Silent(Duration),
    /// The object is another from then on.
    Changed,
    /// The whole object, whatever is asked for.
    Whole,
}

/// What the server has and does.
#[derive(Debug, Default)]
pub struct Served {
    /// Objects by their paths, without the first slash.
    pub objects: BTreeMap<String, Vec<u8>>,
    /// How so many of the next answers to ranges are spoilt.
    pub spoilt: Option<(usize, Spoilt)>,
    /// Ranges that were given, by path.
    pub given: Vec<(String, usize, usize)>,
    /// Whether tags are weak, which match nothing.
    pub weak: bool,
    /// Whether requests must be signed with this access key.
    pub key: Option<String>,
    /// The version of all objects, which their tags say.
    pub version: usize,
}

/// A server that runs until the process ends.
#[derive(Debug, Clone)]
pub struct Server {
    /// What it has and does.
    pub served: Arc<Mutex<Served>>,
    /// Where it listens.
    pub port: u16,
}

/// A request, as far as it matters.
struct Request {
    method: String,
    path: String,
    query: String,
    headers: BTreeMap<String, String>,
}

impl Server {
    /// Begins it, with these objects.
    pub fn of(objects: BTreeMap<String, Vec<u8>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("bound").port();
        let served = Arc::new(Mutex::new(Served { objects, ..Served::default() }));
        let shared = Arc::clone(&served);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                thread::spawn(move || serve(&stream, &shared));
            }
        });
        Server { served, port }
    }

    /// A URL of it.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    /// Spoils so many of the next answers to ranges.
    pub fn spoil(&self, times: usize, how: Spoilt) {
        self.served.lock().expect("free").spoilt = Some((times, how));
    }

    /// Bytes that were given since this was asked last.
    pub fn given(&self) -> usize {
        let given = std::mem::take(&mut self.served.lock().expect("free").given);
        given.iter().map(|(_, begin, end)| end - begin).sum()
    }
}

/// Answers what comes over a connection.
fn serve(stream: &TcpStream, served: &Mutex<Served>) {
    let mut reader = BufReader::new(stream);
    while let Some(request) = read(&mut reader) {
        if answer(&request, served, stream).is_none() {
            return;
        }
    }
}

fn read(reader: &mut impl BufRead) -> Option<Request> {
    let mut lines = reader.lines().map_while(Result::ok).take_while(|line| !line.is_empty());
    let first = lines.next()?;
    let (method, rest) = first.split_once(' ')?;
    let target = rest.split(' ').next()?;
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let header = |line: String| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let headers = lines.filter_map(header).collect();
    Some(Request { method: method.into(), path: path.trim_matches('/').into(), query: query.into(), headers })
}

/// Answers a request; nothing where the connection is to end.
fn answer(request: &Request, served: &Mutex<Served>, stream: &TcpStream) -> Option<()> {
    let mut state = served.lock().expect("free");
    let signed =
        |key: &String| request.headers.get("authorization").is_some_and(|header| header.contains(key.as_str()));
    if !state.key.as_ref().is_none_or(signed) {
        let told = "<Error><Code>SignatureDoesNotMatch</Code><StringToSign>SECRET</StringToSign></Error>";
        return send(stream, 403, &[], told.as_bytes(), told.len());
    }
    if request.query.contains("list-type=2") {
        let listed = listed(&state, request);
        return send(stream, 200, &[], listed.as_bytes(), listed.len());
    }
    let Some(object) = state.objects.get(&request.path).cloned() else { return send(stream, 404, &[], b"", 0) };
    let size = object.len();
    let mark = if state.weak { "W/" } else { "" };
    let of = |version: usize| {
        [
            format!("ETag: {mark}\"{version}\""),
            "Last-Modified: Mon, 23 Nov 2026 00:00:00 GMT".into(),
            "Accept-Ranges: bytes".into(),
        ]
    };
    if request.method == "HEAD" {
        return send(stream, 200, &of(state.version), b"", size);
    }
    let range = request.headers.get("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let (begin, end) = range.map_or((0, size), |(begin, last)| {
        let number = |text: &str| text.parse::<usize>().expect("a number");
        (number(begin), (number(last) + 1).min(size))
    });
    let spoilt = state.spoilt.as_mut().filter(|(left, _)| *left > 0).map(|(left, how)| {
        *left -= 1;
        *how
    });
    state.version += usize::from(spoilt == Some(Spoilt::Changed));
    if request.headers.get("if-match").is_some_and(|tag| *tag != format!("\"{}\"", state.version)) {
        return send(stream, 412, &[], b"", 0);
    }
    let mut headers = of(state.version).to_vec();
    headers.push(format!("Content-Range: bytes {begin}-{}/{size}", end - 1));
    if !matches!(spoilt, Some(Spoilt::Status(_) | Spoilt::Half | Spoilt::Silent(_))) {
        state.given.push((request.path.clone(), begin, end));
    }
    drop(state);
    match spoilt {
        Some(Spoilt::Status(status)) => send(stream, status, &[], b"SECRET", 6),
        Some(Spoilt::Half) => {
            send(stream, 206, &headers, &object[begin..begin.midpoint(end)], end - begin);
            None
        }
        Some(Spoilt::Silent(long)) => {
            thread::sleep(long);
            None
        }
        Some(Spoilt::Whole) => send(stream, 200, &of(0), &object, size),
        Some(Spoilt::Changed) | None => send(stream, 206, &headers, &object[begin..end], end - begin),
    }
}

fn send(mut stream: &TcpStream, status: u16, headers: &[String], body: &[u8], length: usize) -> Option<()> {
    let status = format!("HTTP/1.1 {status} told");
    let head = [&[status], headers, &[format!("Content-Length: {length}\r\n\r\n")]].concat().join("\r\n");
    stream.write_all(&[head.as_bytes(), body].concat()).ok()
}

/// What S3 says of a folder.
fn listed(state: &Served, request: &Request) -> String {
    let prefix = request.query.split('&').find_map(|part| part.strip_prefix("prefix=")).unwrap_or_default();
    let prefix = format!("{}/{}", request.path, prefix.replace("%2F", "/"));
    let (mut told, mut folders) = (Vec::new(), Vec::new());
    for (path, object) in state.objects.iter().filter(|(path, _)| path.starts_with(&prefix)) {
        if let Some((folder, _)) = path[prefix.len()..].split_once('/') {
            folders.push(format!("{}{folder}/", &prefix[request.path.len() + 1..]));
        } else {
            let (key, size, version) = (&path[request.path.len() + 1..], object.len(), &state.version);
            told.push(format!(
                "<Contents><Key>{key}</Key><Size>{size}</Size><LastModified>2026-11-23T00:00:00.000Z</LastModified>\
                 <ETag>\"{version}\"</ETag></Contents>"
            ));
        }
    }
    folders.dedup();
    told.extend(folders.iter().map(|folder| format!("<CommonPrefixes><Prefix>{folder}</Prefix></CommonPrefixes>")));
    format!("<ListBucketResult><IsTruncated>false</IsTruncated>{}</ListBucketResult>", told.concat())
}
