"""A model server on loopback that gives a list of replies in order and keeps every request."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# What a request too many is answered with: neither program asks again after this status.
EXHAUSTED = {"status": 404, "headers": {}, "body": {"error": {"message": "scenario exhausted", "type": "invalid_request_error"}}}


class Server:
    """Listens from its making to `close`."""

    def __init__(self, replies):
        self.replies = list(replies)
        self.requests = []
        self.lock = threading.Lock()
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), handler(self))
        self.http.daemon_threads = True
        self.address = f"127.0.0.1:{self.http.server_address[1]}"
        self.url = f"http://{self.address}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def answer(self, request):
        with self.lock:
            self.requests.append(request)
            return self.replies.pop(0) if self.replies else EXHAUSTED

    def close(self):
        self.http.shutdown()
        self.http.server_close()


def handler(server):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def take(self):
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
            try:
                body = json.loads(raw)
            except ValueError:
                body = raw.decode("utf-8", "replace")
            headers = {name.lower(): value for name, value in self.headers.items()}
            reply = server.answer({"method": self.command, "path": self.path, "headers": headers, "body": body})
            time.sleep(reply.get("delay_ms", 0) / 1000)
            body = reply["body"]
            plain = isinstance(body, str)
            data = body.encode() if plain else json.dumps(body).encode()
            headers = {"content-type": "text/plain" if plain else "application/json"} | reply["headers"]
            self.send_response(reply["status"])
            for name, value in headers.items():
                self.send_header(name, str(value))
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = take

        def log_message(self, *_):
            pass

    return Handler
