//! Lines of bounded length from an untrusted stream, and its last output.

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt};

/// Longest line that is kept whole.
pub(super) const MAX_LINE: usize = 16 << 20;
/// Bytes kept of a longer line.
const OPENING: usize = 200;

/// One line, without its end.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    Whole(Vec<u8>),
    /// Longer than [`MAX_LINE`]: its start and its length. The rest was read and discarded.
    TooLong {
        opening: Vec<u8>,
        bytes: usize,
    },
}

/// The next line, or `None` at the end of the stream. Memory stays under [`MAX_LINE`] and a buffer.
pub(super) async fn next_line(stream: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Option<Line>> {
    let mut line = Vec::new();
    let mut bytes = 0;
    loop {
        let buffer = stream.fill_buf().await?;
        if buffer.is_empty() {
            return Ok((bytes > 0).then(|| finish(line, bytes)));
        }
        let end = memchr_newline(buffer);
        let part = &buffer[..end.unwrap_or(buffer.len())];
        bytes += part.len();
        if bytes <= MAX_LINE {
            line.extend_from_slice(part);
        } else {
            line.truncate(OPENING);
            line.shrink_to_fit();
        }
        let used = part.len() + usize::from(end.is_some());
        stream.consume(used);
        if end.is_some() {
            return Ok(Some(finish(line, bytes)));
        }
    }
}

fn finish(mut line: Vec<u8>, bytes: usize) -> Line {
    if bytes <= MAX_LINE {
        return Line::Whole(line);
    }
    line.truncate(OPENING);
    Line::TooLong { opening: line, bytes }
}

fn memchr_newline(buffer: &[u8]) -> Option<usize> {
    buffer.iter().position(|&byte| byte == b'\n')
}

/// Tail of a stream's output, and its total length.
#[derive(Debug, Default)]
pub(super) struct Tail {
    kept: Vec<u8>,
    total: u64,
}

/// Bytes a tail keeps.
const TAIL: usize = 8 << 10;

impl Tail {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.kept.extend_from_slice(bytes);
        let over = self.kept.len().saturating_sub(TAIL);
        self.kept.drain(..over);
    }

    /// A mark for [`Tail::since`].
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Lines after a mark, as far as they are kept.
    pub(super) fn since(&self, mark: u64) -> String {
        let fresh = usize::try_from(self.total - mark).unwrap_or(usize::MAX).min(self.kept.len());
        String::from_utf8_lossy(&self.kept[self.kept.len() - fresh..]).trim().to_owned()
    }
}

/// Reads a stream to its end into a tail.
pub(super) async fn follow(mut stream: impl AsyncRead + Unpin, tail: &std::sync::Mutex<Tail>) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        tail.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(&buffer[..count]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::BufReader;

    async fn lines(bytes: &[u8]) -> Vec<Line> {
        let mut stream = BufReader::with_capacity(64 << 10, bytes);
        let mut lines = Vec::new();
        while let Some(line) = next_line(&mut stream).await.unwrap() {
            lines.push(line);
        }
        lines
    }

    #[tokio::test]
    async fn splits_and_bounds() {
        let whole = |text: &str| Line::Whole(text.as_bytes().to_vec());
        assert_eq!(lines(b"a\n\nbc\r\nlast").await, [whole("a"), whole(""), whole("bc\r"), whole("last")]);
        assert_eq!(lines(b"").await, []);
        let mut long = vec![b'x'; MAX_LINE];
        assert_eq!(lines(&long).await, [Line::Whole(long.clone())]);
        long.extend_from_slice(b"x\nnext");
        assert_eq!(
            lines(&long).await,
            [Line::TooLong { opening: vec![b'x'; OPENING], bytes: MAX_LINE + 1 }, whole("next")]
        );
    }

    #[test]
    fn a_tail_keeps_the_end() {
        let mut tail = Tail::default();
        tail.push(b"before ");
        let mark = tail.total();
        tail.push(b"after\n");
        assert_eq!(tail.since(mark), "after");
        tail.push(&vec![b'z'; 1 << 20]);
        assert_eq!(tail.since(0).len(), TAIL);
    }
}
