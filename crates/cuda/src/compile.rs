//! Kernel compilation: NVRTC at first use, then a cache on disk.
//!
//! An entry's name is the hash of everything its content depends on (source, options, NVRTC's version, architecture), so a
//! new Hone or a new CUDA never finds an old entry. Entries are written to a temporary name and renamed, and carry the
//! hash of their content: a torn or edited one is compiled again.

#![expect(unsafe_code, reason = "NVRTC is a C interface")]

use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::{env, fs, io, process};

use cudarc::nvrtc::{result, sys};
use sha2::{Digest, Sha256};

use crate::error::{CudaError, Result};

const MAGIC: &[u8] = b"hone-cubin-1\n";

/// Kernel source to compile: the shared prelude, then the file.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    pub name: &'static str,
    pub text: &'static str,
}

const PRELUDE: &str = include_str!("kernels/prelude.cuh");

/// Every kernel file.
pub(crate) const SOURCES: [Source; 18] = [
    Source { name: "rms_norm", text: include_str!("kernels/rms_norm.cu") },
    Source { name: "rope", text: include_str!("kernels/rope.cu") },
    Source { name: "swiglu", text: include_str!("kernels/swiglu.cu") },
    Source { name: "embed", text: include_str!("kernels/embed.cu") },
    Source { name: "head", text: include_str!("kernels/head.cu") },
    Source { name: "adamw", text: include_str!("kernels/adamw.cu") },
    // For GPUs other than Hopper, and to be checked against the other on a Hopper.
    Source {
        name: "attention",
        text: concat!(
            "#define FORWARD_WARPS 8\n#define FORWARD_KEYS 64\n",
            "#define KV_WARPS 8\n#define KV_QUERIES 64\n#define Q_WARPS 8\n#define Q_KEYS 64\n",
            include_str!("kernels/attention.cuh"),
            "\n#line 1\n",
            include_str!("kernels/attention.cu")
        ),
    },
    Source {
        name: "attention_small",
        text: concat!(
            "#define FORWARD_WARPS 8\n#define FORWARD_KEYS 64\n",
            "#define KV_WARPS 8\n#define KV_QUERIES 32\n#define Q_WARPS 4\n#define Q_KEYS 32\n",
            include_str!("kernels/attention.cuh"),
            "\n#line 1\n",
            include_str!("kernels/attention.cu")
        ),
    },
    Source {
        name: "attention_hopper",
        text: concat!(
            "#define FORWARD_KEYS 128\n#define KV_QUERIES 64\n#define Q_KEYS 64\n",
            include_str!("kernels/attention.cuh"),
            include_str!("kernels/wgmma.cuh"),
            include_str!("kernels/tma.cuh"),
            "\n#line 1\n",
            include_str!("kernels/attention_hopper.cu")
        ),
    },
    Source { name: "attention_f32", text: include_str!("kernels/attention_f32.cu") },
    Source { name: "decode", text: include_str!("kernels/decode.cu") },
    Source { name: "sample", text: include_str!("kernels/sample.cu") },
    Source { name: "decode_f32", text: include_str!("kernels/decode_f32.cu") },
    Source { name: "draw", text: include_str!("kernels/draw.cu") },
    Source { name: "heads", text: include_str!("kernels/heads.cu") },
    Source { name: "rows", text: include_str!("kernels/rows.cu") },
    Source { name: "watch", text: include_str!("kernels/watch.cu") },
    Source { name: "random", text: include_str!("kernels/random.cu") },
];

impl Source {
    /// Source passed to NVRTC; `#line` makes its messages name lines of the file.
    pub fn full(&self) -> String {
        format!("{PRELUDE}\n#line 1 \"{}.cu\"\n{}", self.name, self.text)
    }
}

/// NVRTC as found on this machine, for one architecture.
#[derive(Clone, Debug)]
pub struct Compiler {
    /// Architecture as NVRTC spells it: `sm_80`; `sm_90a` for Hopper with its own instructions.
    arch: String,
    /// NVRTC's version, (major, minor).
    version: (i32, i32),
    /// Folder of cache entries; absent if no home directory is known.
    cache: Option<PathBuf>,
}

impl Compiler {
    pub fn new(arch: String, cache: Option<PathBuf>) -> Result<Self> {
        Ok(Self { arch, version: Self::found()?, cache })
    }

    /// NVRTC's version, (major, minor).
    pub fn found() -> Result<(i32, i32)> {
        // SAFETY: only looks the library up.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::NoNvrtc);
        }
        let mut version = (0, 0);
        // SAFETY: both pointers are to live integers.
        unsafe { sys::nvrtcVersion(&raw mut version.0, &raw mut version.1) }
            .result()
            .map_err(CudaError::nvrtc("nvrtcVersion"))?;
        Ok(version)
    }

    pub fn arch(&self) -> &str {
        &self.arch
    }

    /// CUDA version of NVRTC in the driver's notation (13.0 is 13000).
    pub fn cuda_version(&self) -> i32 {
        self.version.0 * 1000 + self.version.1 * 10
    }

    /// Architectures that NVRTC can compile for, as numbers (90 is sm_90).
    pub fn architectures() -> Result<Vec<i32>> {
        Self::found()?;
        let mut count = 0;
        // SAFETY: the pointer is to a live integer.
        unsafe { sys::nvrtcGetNumSupportedArchs(&raw mut count) }
            .result()
            .map_err(CudaError::nvrtc("nvrtcGetNumSupportedArchs"))?;
        let mut all = vec![0; count.max(0) as usize];
        // SAFETY: the array has as many entries as NVRTC just said it writes.
        unsafe { sys::nvrtcGetSupportedArchs(all.as_mut_ptr()) }
            .result()
            .map_err(CudaError::nvrtc("nvrtcGetSupportedArchs"))?;
        Ok(all)
    }

    fn options(&self) -> [String; 2] {
        [format!("--gpu-architecture={}", self.arch), "--std=c++17".into()]
    }

    /// Machine code of a source, from the cache if it has an intact entry.
    pub fn cubin(&self, source: &Source) -> Result<Vec<u8>> {
        let text = source.full();
        let key = cache_key(&text, &self.options(), self.version, &self.arch);
        let entry = self.cache.as_ref().map(|folder| folder.join(format!("{}-{key}.cubin", source.name)));
        if let Some(cubin) = entry.as_deref().and_then(read_entry) {
            return Ok(cubin);
        }
        let cubin = self.compile(source.name, &text)?;
        if let Some(path) = entry {
            // A home directory that is full or read-only costs a compilation at every start, not the run.
            let _ = write_entry(&path, &cubin);
        }
        Ok(cubin)
    }

    fn compile(&self, name: &str, text: &str) -> Result<Vec<u8>> {
        let failed = |what: &str| CudaError::Compile { name: name.into(), arch: self.arch.clone(), log: what.into() };
        let text = CString::new(text).map_err(|_| failed("the source holds a zero byte\n"))?;
        let file = CString::new(format!("{name}.cu")).map_err(|_| failed("the name holds a zero byte\n"))?;
        let program = result::create_program(&text, Some(&file)).map_err(CudaError::nvrtc("nvrtcCreateProgram"))?;
        let cubin = self.compile_program(program, name);
        // SAFETY: created above, destroyed once, not used after.
        unsafe { result::destroy_program(program) }.map_err(CudaError::nvrtc("nvrtcDestroyProgram"))?;
        cubin
    }

    fn compile_program(&self, program: sys::nvrtcProgram, name: &str) -> Result<Vec<u8>> {
        // SAFETY: `program` is live until the caller destroys it.
        if let Err(e) = unsafe { result::compile_program(program, &self.options()) } {
            // SAFETY: as above.
            let log = unsafe { result::get_program_log(program) }.unwrap_or_default();
            let log: Vec<u8> = log.into_iter().map(i8::cast_unsigned).collect();
            let log = CStr::from_bytes_until_nul(&log).map(|l| l.to_string_lossy().into_owned()).unwrap_or_default();
            return Err(CudaError::Compile {
                name: name.into(),
                arch: self.arch.clone(),
                log: format!("{:?}\n{log}", e.0),
            });
        }
        let mut size = 0;
        // SAFETY: `program` is live and compiled; `size` outlives the call.
        unsafe { sys::nvrtcGetCUBINSize(program, &raw mut size) }
            .result()
            .map_err(CudaError::nvrtc("nvrtcGetCUBINSize"))?;
        let mut cubin = vec![0u8; size];
        // SAFETY: the array has the size NVRTC asked for.
        unsafe { sys::nvrtcGetCUBIN(program, cubin.as_mut_ptr().cast()) }
            .result()
            .map_err(CudaError::nvrtc("nvrtcGetCUBIN"))?;
        Ok(cubin)
    }
}

/// Cache folder: `$XDG_CACHE_HOME/hone/kernels`, or `~/.cache/hone/kernels`.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    let named = |name| env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let base = named("XDG_CACHE_HOME").or_else(|| named("HOME").map(|home| home.join(".cache")))?;
    Some(base.join("hone").join("kernels"))
}

fn cache_key(text: &str, options: &[String], version: (i32, i32), arch: &str) -> String {
    let mut hash = Sha256::new();
    let version = format!("{}.{}", version.0, version.1);
    for part in [text, &options.join("\n"), &version, arch] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hex(&hash.finalize()[..16])
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|b| [b >> 4, b & 15]).map(|d| char::from(DIGITS[usize::from(d)])).collect()
}

/// Content of an intact entry; `None` for a missing, torn or edited one.
fn read_entry(path: &Path) -> Option<Vec<u8>> {
    let bytes = fs::read(path).ok()?;
    let (digest, cubin) = bytes.strip_prefix(MAGIC)?.split_at_checked(32)?;
    (Sha256::digest(cubin).as_slice() == digest).then(|| cubin.to_vec())
}

fn write_entry(path: &Path, cubin: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let temporary = path.with_extension(format!("{}.tmp", process::id()));
    fs::write(&temporary, [MAGIC, Sha256::digest(cubin).as_slice(), cubin].concat())?;
    fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str, option: &str, version: (i32, i32), arch: &str) -> String {
        cache_key(text, &[option.to_owned()], version, arch)
    }

    #[test]
    fn every_part_of_the_key_counts() {
        let base = key("kernel", "-O3", (13, 0), "sm_90");
        assert_eq!(base, key("kernel", "-O3", (13, 0), "sm_90"));
        for other in [
            key("kernel ", "-O3", (13, 0), "sm_90"),
            key("kernel", "-O2", (13, 0), "sm_90"),
            key("kernel", "-O3", (13, 1), "sm_90"),
            key("kernel", "-O3", (13, 0), "sm_80"),
            // The parts are delimited: moving a character from one to the next is another key.
            key("kernel-", "O3", (13, 0), "sm_90"),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn a_torn_or_edited_entry_is_no_entry() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new").join("k.cubin");
        write_entry(&path, b"machine code").unwrap();
        assert_eq!(read_entry(&path).as_deref(), Some(&b"machine code"[..]));
        let whole = fs::read(&path).unwrap();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            assert_eq!(read_entry(&path), None, "cut to {cut} bytes");
        }
        for at in 0..whole.len() {
            let mut edited = whole.clone();
            edited[at] ^= 1;
            fs::write(&path, edited).unwrap();
            assert_eq!(read_entry(&path), None, "byte {at} changed");
        }
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    #[ignore = "needs NVRTC (libnvrtc.so on LD_LIBRARY_PATH), no GPU"]
    fn every_source_compiles_and_a_corrupt_entry_is_compiled_again() {
        let folder = tempfile::tempdir().unwrap();
        for arch in ["sm_80", "sm_89", "sm_90a", "sm_100", "sm_120"] {
            let compiler = Compiler::new(arch.into(), Some(folder.path().into())).unwrap();
            for source in SOURCES.iter().filter(|s| arch == "sm_90a" || s.name != "attention_hopper") {
                let cubin = compiler.cubin(source).unwrap_or_else(|e| panic!("{e}"));
                assert!(cubin.starts_with(b"\x7fELF"));
            }
        }
        let compiler = Compiler::new("sm_90a".into(), Some(folder.path().into())).unwrap();
        let first = compiler.cubin(&SOURCES[0]).unwrap();
        for entry in fs::read_dir(folder.path()).unwrap() {
            fs::write(entry.unwrap().path(), b"not an entry").unwrap();
        }
        assert_eq!(compiler.cubin(&SOURCES[0]).unwrap(), first);
    }

    #[test]
    #[ignore = "needs NVRTC (libnvrtc.so on LD_LIBRARY_PATH), no GPU"]
    fn a_source_that_does_not_compile_shows_the_compilers_message() {
        let compiler = Compiler::new("sm_90".into(), None).unwrap();
        let broken = Source { name: "broken", text: "extern \"C\" __global__ void broken() { missing(); }" };
        let error = compiler.cubin(&broken).unwrap_err().to_string();
        assert!(error.contains("broken.cu(1)") && error.contains("missing"), "{error}");
    }
}
