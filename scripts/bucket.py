#!/usr/bin/env python3
"""Task files in an S3 bucket: moto's server from PyPI, in a virtual environment that is thrown away, holds a bucket, and the
data crate's test reads it with the feature `cloud`. Exit code 0: it does.

    scripts/bucket.py        BUCKET_PYTHON names a Python that has moto[server] and boto3 already
"""
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGES = ["moto[server]", "boto3", "zstandard"]
TEST = ["cargo", "test", "--quiet", "-p", "hone-data", "--features", "cloud", "--test", "it", "--", "--ignored", "a_bucket_is_read"]

FILL = """
import json, sys, zstandard, boto3
line = lambda key: json.dumps({"key": key, "env": "e", "prompt": key})
s3 = boto3.client("s3", endpoint_url=sys.argv[1])
s3.create_bucket(Bucket="sets")
s3.put_object(Bucket="sets", Key="v1/tasks.jsonl", Body="\\n".join([line("a"), line("b"), "{}"]).encode())
s3.put_object(Bucket="sets", Key="v1/train.jsonl.zst", Body=zstandard.compress(line("c").encode()))
"""


def listening(port, server):
    for _ in range(300):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return True
        if server.poll() is not None:
            return False
        time.sleep(0.1)
    return False


def main():
    with tempfile.TemporaryDirectory() as directory:
        python = os.environ.get("BUCKET_PYTHON")
        if not python:
            venv.create(directory, with_pip=True)
            python = os.path.join(directory, "bin", "python")
            subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES], check=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        url = f"http://127.0.0.1:{port}"
        env = dict(os.environ, AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret", AWS_REGION="us-east-1", AWS_DEFAULT_REGION="us-east-1",
                   AWS_ENDPOINT_URL=url, AWS_ALLOW_HTTP="true", HONE_TEST_BUCKET="s3://sets/v1")
        server = subprocess.Popen([python, "-m", "moto.server", "-p", str(port)], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            if not listening(port, server):
                sys.exit("moto's server did not start")
            subprocess.run([python, "-c", FILL, url], env=env, check=True)
            done = subprocess.run(TEST, cwd=ROOT, env=env, capture_output=True, text=True)
        finally:
            server.kill()
            server.wait()
    print(done.stdout, done.stderr[-3000:] if done.returncode else "", sep="")
    # A filter that matches nothing passes too.
    sys.exit(0 if done.returncode == 0 and "1 passed" in done.stdout else 1)


if __name__ == "__main__":
    main()
