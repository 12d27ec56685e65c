//! Locations of task files: this machine, standard input, `http(s)://`, or a bucket with the feature `cloud`.
//!
//! Remote files are fetched into a temporary file first: one connection, no half-read set, and parquet needs random
//! access.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::DataError;

/// An input as the user named it.
#[derive(Debug)]
pub struct Source {
    /// As named by the user.
    pub name: String,
    place: Where,
}

#[derive(Debug)]
enum Where {
    Local(PathBuf),
    Fetched(NamedTempFile),
}

impl Source {
    /// Opens `-`, a path or a URL. Directories give each of their task files.
    pub(crate) fn all(name: &str) -> Result<Vec<Self>, DataError> {
        if name == "-" {
            return Ok(vec![Self { name: "<stdin>".into(), place: Where::Fetched(stdin()?) }]);
        }
        if let Some((scheme, _)) = name.split_once("://") {
            let file = match scheme {
                "http" | "https" => http(name)?,
                "s3" | "gs" | "az" | "abfs" | "abfss" => cloud(name)?,
                "file" => return Self::all(&name["file://".len()..]),
                other => {
                    let what = format!("{other}:// is not known; use a path, http(s)://, s3://, gs:// or az://");
                    return Err(DataError::Fetch { url: name.into(), what });
                }
            };
            return Ok(vec![Self { name: name.into(), place: Where::Fetched(file) }]);
        }
        let path = PathBuf::from(name);
        if path.is_dir() {
            return directory(&path);
        }
        let local = |path: PathBuf| Self { name: path.display().to_string(), place: Where::Local(path) };
        Ok(vec![local(path)])
    }

    /// Local path of its bytes.
    pub fn path(&self) -> &Path {
        match &self.place {
            Where::Local(path) => path,
            Where::Fetched(file) => file.path(),
        }
    }

    /// The end of its name without `.zst`: `jsonl` of `tasks.jsonl.zst`.
    pub(crate) fn extension(&self) -> &str {
        let name = self.name.split(['?', '#']).next().unwrap_or_default();
        let name = name.strip_suffix(".zst").unwrap_or(name);
        name.rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    /// Its bytes, decompressed if the name ends in `.zst`.
    pub(crate) fn open(&self) -> Result<Box<dyn BufRead>, DataError> {
        let read = |source| DataError::Read { path: self.name.clone(), source };
        let file = File::open(self.path()).map_err(read)?;
        if self.name.ends_with(".zst") {
            return Ok(Box::new(BufReader::new(zstd::Decoder::new(file).map_err(read)?)));
        }
        let mut reader = BufReader::with_capacity(1 << 16, file);
        let what = match reader.fill_buf().map_err(read)? {
            [0x1f, 0x8b, ..] => "it is compressed with gzip; unpack it with gunzip, or compress it with zstd (.zst)",
            [0x28, 0xb5, 0x2f, 0xfd, ..] => "it is compressed with zstd; let its name end in .zst",
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "its text is UTF-16; write it as UTF-8 (iconv -f UTF-16 -t UTF-8)",
            [b'P', b'A', b'R', b'1', ..] => "it is a parquet file; let its name end in .parquet",
            [b'P', b'K', 3, 4, ..] => "it is a zip archive; unpack it first",
            _ => return Ok(Box::new(reader)),
        };
        Err(DataError::Form { path: self.name.clone(), what: what.into() })
    }
}

/// Files beside tasks that are not task files.
const BESIDE: [&str; 6] =
    ["split_tasks.json", "manifest.json", "report.json", "rejected.jsonl", "progress.jsonl", "issues.jsonl"];

/// The task files of a directory, by name: tau-bench's `tasks*.json` if present, else all files of a known format.
fn directory(path: &Path) -> Result<Vec<Source>, DataError> {
    let read = |source| DataError::Read { path: path.display().to_string(), source };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(read)? {
        let entry = entry.map_err(read)?.path();
        let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let plain = name.strip_suffix(".zst").unwrap_or(&name);
        let known = [".json", ".jsonl", ".parquet"].iter().any(|end| plain.ends_with(end));
        if known && entry.is_file() && !BESIDE.contains(&plain) {
            files.push((name, entry));
        }
    }
    if files.iter().any(|(name, _)| name.starts_with("tasks") && name.ends_with(".json")) {
        files.retain(|(name, _)| name.starts_with("tasks"));
    }
    files.sort();
    if files.is_empty() {
        let what = "the directory has no task files (.json, .jsonl, .parquet); name the files".to_owned();
        return Err(DataError::Form { path: path.display().to_string(), what });
    }
    let source = |path: PathBuf| Source { name: path.display().to_string(), place: Where::Local(path) };
    Ok(files.into_iter().map(|(_, path)| source(path)).collect())
}

/// Standard input, stored in a file: some commands read their input twice.
fn stdin() -> Result<NamedTempFile, DataError> {
    let copied = NamedTempFile::new().and_then(|mut file| {
        io::copy(&mut io::stdin().lock(), &mut file)?;
        Ok(file)
    });
    copied.map_err(|source| DataError::Read { path: "standard input".into(), source })
}

/// Seconds for a connection, and between two pieces of a download.
const PATIENCE: std::time::Duration = std::time::Duration::from_mins(1);

fn http(url: &str) -> Result<NamedTempFile, DataError> {
    let failed = |what: String| DataError::Fetch { url: url.into(), what };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(error.to_string()))?;
    runtime.block_on(async {
        // One provider serves the whole process; it is not an error if it is already installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().connect_timeout(PATIENCE).read_timeout(PATIENCE).build();
        let request = client.map_err(|error| failed(error.to_string()))?.get(url);
        let mut response = request.send().await.map_err(|error| failed(error.without_url().to_string()))?;
        if !response.status().is_success() {
            return Err(failed(format!("the server answered {}; check the address", response.status())));
        }
        let mut file = NamedTempFile::new().map_err(|error| failed(error.to_string()))?;
        while let Some(chunk) = response.chunk().await.map_err(|error| failed(error.without_url().to_string()))? {
            file.write_all(&chunk).map_err(|error| failed(error.to_string()))?;
        }
        Ok(file)
    })
}

#[cfg(not(feature = "cloud"))]
fn cloud(url: &str) -> Result<NamedTempFile, DataError> {
    let what =
        "this build of hone reads no buckets; build it with `cargo build --release --features cloud`, or copy the \
                file here first"
            .to_owned();
    Err(DataError::Fetch { url: url.into(), what })
}

/// Opens a bucket. Keys and regions come from the environment, as each provider's own tools read them.
#[cfg(feature = "cloud")]
fn cloud(url: &str) -> Result<NamedTempFile, DataError> {
    use futures::StreamExt as _;
    use object_store::ObjectStoreExt as _;
    let failed = |what: String| DataError::Fetch { url: url.into(), what };
    let parsed = url::Url::parse(url).map_err(|error| failed(error.to_string()))?;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(error.to_string()))?;
    // `AWS_ACCESS_KEY_ID` is the option aws_access_key_id; names that are not options are skipped.
    let options = std::env::vars().map(|(name, value)| (name.to_lowercase(), value));
    let (store, path) = object_store::parse_url_opts(&parsed, options).map_err(|error| failed(error.to_string()))?;
    runtime.block_on(async {
        let found = store.get(&path).await.map_err(|error| failed(error.to_string()))?;
        let mut stream = found.into_stream();
        let mut file = NamedTempFile::new().map_err(|error| failed(error.to_string()))?;
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|error| failed(error.to_string()))?;
            file.write_all(&chunk).map_err(|error| failed(error.to_string()))?;
        }
        Ok(file)
    })
}
