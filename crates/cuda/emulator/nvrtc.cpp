// NVRTC of an emulated GPU: a program is compiled for this machine by translate.py; its machine code is the path of a library.

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>

#define API extern "C" __attribute__((visibility("default"))) int

namespace {

struct Program {
    std::string source, path, log;
};

std::string folder() {
    Dl_info info;
    dladdr((void*)folder, &info);
    std::string file = info.dli_fname;
    return file.substr(0, file.rfind('/'));
}

}  // namespace

API nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 0, 0; }
static const int ARCHS[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};
API nvrtcGetNumSupportedArchs(int* count) { return *count = std::size(ARCHS), 0; }
API nvrtcGetSupportedArchs(int* archs) { return memcpy(archs, ARCHS, sizeof ARCHS), 0; }
API nvrtcCreateProgram(Program** to, const char* source, const char*, int, const char* const*, const char* const*) {
    return *to = new Program{source, "", ""}, 0;
}
API nvrtcDestroyProgram(Program** program) { return delete *program, *program = nullptr, 0; }
API nvrtcCompileProgram(Program* program, int count, const char* const* options) {
    // The translator reads the source from a file and prints the library's path, or what is wrong.
    char file[] = "/tmp/emulated-kernel-XXXXXX";
    int to = mkstemp(file);
    if (to < 0 || write(to, program->source.data(), program->source.size()) != (ssize_t)program->source.size()) return 1;
    close(to);
    std::string command = "python3 '" + folder() + "/translate.py' " + file;
    for (int i = 0; i < count; i++) command += std::string(" '") + options[i] + "'";
    FILE* pipe = popen((command + " 2>&1").c_str(), "r");
    char part[4096];
    for (size_t n; pipe && (n = fread(part, 1, sizeof part, pipe));) program->path.append(part, n);
    int status = pipe ? pclose(pipe) : 1;
    unlink(file);
    if (status) return program->log = program->path, 6;
    program->path.erase(program->path.find_last_not_of('\n') + 1);
    return 0;
}
API nvrtcGetProgramLogSize(Program* program, size_t* size) { return *size = program->log.size() + 1, 0; }
API nvrtcGetProgramLog(Program* program, char* to) { return strcpy(to, program->log.c_str()), 0; }
API nvrtcGetCUBINSize(Program* program, size_t* size) { return *size = program->path.size() + 1, 0; }
API nvrtcGetCUBIN(Program* program, char* to) { return strcpy(to, program->path.c_str()), 0; }
