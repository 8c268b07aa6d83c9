"""Any engine as an OpenAI-compatible server: `python -m coevo_lib.engines.serve --model-dir DIR`.

Serves `POST /v1/chat/completions` and `GET /v1/models` on the loopback interface. Leaves out streaming, keys and tool
calling: it is a stand-in for a chat model, not a public server.
"""

from __future__ import annotations

import argparse
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from coevo_lib.engines import KINDS, open_engine
from coevo_lib.engines.base import Engine, EngineFault, Reply, Request


def make_server(engine: Engine, port: int = 0, host: str = "127.0.0.1") -> ThreadingHTTPServer:
    """A server that is ready to `serve_forever()`; port 0 takes a free one, see `server_port`."""

    class Handler(ChatHandler):
        pass

    Handler.engine = engine
    return ThreadingHTTPServer((host, port), Handler)


class ChatHandler(BaseHTTPRequestHandler):
    engine: Engine
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/v1/models":
            self._send(200, {"object": "list", "data": [{"id": self.engine.model_id, "object": "model"}]})
        else:
            self._send(404, problem("no such path"))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path != "/v1/chat/completions":
            self._send(404, problem("no such path"))
            return
        try:
            request = read_request(json.loads(body))
        except (ValueError, KeyError, TypeError) as error:
            self._send(400, problem(f"not a chat request: {error}"))
            return
        try:
            self._send(200, completion(self.engine.model_id, self.engine.submit(request).result()))
        except EngineFault as fault:
            self._send(500, problem(str(fault)))

    def log_message(self, format: str, *args) -> None:
        """Quiet: a line per request would drown everything else."""

    def _send(self, status: int, content: dict) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def read_request(body: dict) -> Request:
    stop = body.get("stop") or ()
    return Request(
        messages=tuple({"role": str(m["role"]), "content": str(m["content"])} for m in body["messages"]),
        max_tokens=int(body.get("max_tokens") or Request.max_tokens),
        temperature=float(body.get("temperature") or 0.0),
        stop=(stop,) if isinstance(stop, str) else tuple(stop),
    )


def completion(model: str, reply: Reply) -> dict:
    message = {"role": "assistant", "content": reply.text}
    return {
        "id": "chatcmpl-0",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": reply.finish, "logprobs": None}],
        "usage": {
            "prompt_tokens": reply.prompt_tokens,
            "completion_tokens": reply.output_tokens,
            "total_tokens": reply.prompt_tokens + reply.output_tokens,
        },
    }


def problem(message: str) -> dict:
    return {"error": {"message": message, "type": "server", "code": None}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model-dir", required=True)
    parser.add_argument("--engine", default="auto", choices=KINDS[:-1])
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    with open_engine(arguments.engine, arguments.model_dir) as engine, make_server(engine, arguments.port) as server:
        print(f"serving {engine.model_id} at http://127.0.0.1:{server.server_port}/v1", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
