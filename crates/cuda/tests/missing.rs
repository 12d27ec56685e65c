//! Machines without a GPU, with an old driver, without NVRTC, with a GPU of another architecture: stand-ins for the libraries are put
//! where the loader looks first, and the program says what to do.

use std::io;
use std::path::Path;
use std::process::Command;

/// A driver as far as opening a device asks it: version, number of devices and capability by the environment.
const DRIVER: &str = r#"
#include <stdlib.h>
#include <string.h>
static int set(const char* name, int otherwise) { const char* x = getenv(name); return x ? atoi(x) : otherwise; }
int cuDriverGetVersion(int* version) { *version = set("FAKE_DRIVER", 13000); return 0; }
int cuInit(unsigned flags) { return set("FAKE_DEVICES", 1) ? 0 : 100; }
int cuDeviceGetCount(int* count) { *count = set("FAKE_DEVICES", 1); return 0; }
int cuDeviceGet(int* device, int ordinal) { *device = ordinal; return 0; }
int cuDevicePrimaryCtxRetain(void** context, int device) { *context = (void*)1; return 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { return 0; }
int cuCtxGetCurrent(void** context) { *context = (void*)1; return 0; }
int cuCtxSetCurrent(void* context) { return 0; }
int cuDeviceGetName(char* name, int len, int device) { strncpy(name, "Stand-in", len); return 0; }
int cuDeviceGetAttribute(int* value, int attribute, int device) {
    int capability = set("FAKE_CAPABILITY", 90);
    *value = attribute == 75 ? capability / 10 : attribute == 76 ? capability % 10 : 1;
    return 0;
}
"#;

/// A compiler of CUDA 12.9 as far as it is asked before it compiles.
const COMPILER: &str = r"
int nvrtcVersion(int* major, int* minor) { *major = 12; *minor = 9; return 0; }
int nvrtcGetNumSupportedArchs(int* count) { *count = 3; return 0; }
int nvrtcGetSupportedArchs(int* archs) { archs[0] = 70; archs[1] = 80; archs[2] = 90; return 0; }
";

fn library(folder: &Path, name: &str, source: Option<&str>) -> io::Result<()> {
    // Every name that is tried: where there is no stand-in, a file that is no library hides the system's own.
    let endings = ["", ".13", ".12", ".11", ".10", ".9", ".1"];
    let numbered = ["64", "64_9", "64_10", "64_11", "64_12", "64_13", "64_120_0", "64_130_0"];
    let plain = endings.iter().map(|ending| format!("lib{name}.so{ending}"));
    for file in plain.chain(numbered.iter().map(|number| format!("lib{name}{number}.so"))) {
        std::fs::write(folder.join(file), "not a library")?;
    }
    let Some(source) = source else { return Ok(()) };
    let (from, to) = (folder.join(format!("{name}.c")), folder.join(format!("lib{name}.so")));
    std::fs::write(&from, source)?;
    std::fs::remove_file(&to)?;
    let done = Command::new("cc").args(["-shared", "-fPIC", "-w", "-o"]).arg(&to).arg(&from).status()?;
    assert!(done.success());
    Ok(())
}

/// The program's words on a machine with these libraries.
fn said(driver: Option<&str>, compiler: Option<&str>, environment: &[(&str, &str)]) -> io::Result<String> {
    let folder = tempfile::tempdir()?;
    library(folder.path(), "cuda", driver)?;
    library(folder.path(), "nvcuda", None)?;
    library(folder.path(), "nvrtc", compiler)?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_hone-cuda-check"));
    command.env("LD_LIBRARY_PATH", folder.path()).envs(environment.iter().copied());
    let done = command.output()?;
    assert_eq!(done.status.code(), Some(1), "an error, not a crash: {}", String::from_utf8_lossy(&done.stderr));
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

#[test]
fn a_machine_that_lacks_something_is_told_what_to_do() {
    let (driver, compiler) = (Some(DRIVER), Some(COMPILER));
    for (said, parts) in [
        (said(None, None, &[]), ["no NVIDIA driver", "device = \\\"cpu\\\""]),
        (said(driver, compiler, &[("FAKE_DEVICES", "0")]), ["no CUDA device 0", "CUDA_VISIBLE_DEVICES"]),
        (said(driver, compiler, &[("FAKE_DRIVER", "11080")]), ["CUDA 11.8", "12.0"]),
        (said(driver, None, &[]), ["libnvrtc.so", "LD_LIBRARY_PATH"]),
        (said(driver, compiler, &[("FAKE_CAPABILITY", "70")]), ["compute capability 7.0", "device = \\\"cpu\\\""]),
        (said(driver, compiler, &[("FAKE_CAPABILITY", "121")]), ["NVRTC 12.9 does not know it", "newer CUDA"]),
    ] {
        let text = said.unwrap();
        for part in parts {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
