"""A model server on loopback that gives a list of replies in order and keeps every request."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# The answer to a request after the last reply: neither program tries again after this status.
EXHAUSTED = {"status": 404, "headers": {}, "body": {"error": {"message": "scenario exhausted", "type": "invalid_request_error"}}}


class Server:
    """Listens until `close`. Its waits are divided by `clock`."""

    def __init__(self, replies, clock=1):
        self.replies = list(replies)
        self.clock = clock
        self.requests = []
        self.lock = threading.Lock()
        self.closed = False
        self.listen(0)
        self.port = self.http.server_address[1]
        self.address = f"127.0.0.1:{self.port}"
        self.url = f"http://{self.address}"

    def listen(self, port):
        self.http = ThreadingHTTPServer(("127.0.0.1", port), handler(self))
        self.http.daemon_threads = True
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def leave(self, milliseconds):
        """Nothing listens for this time; accepted connections are still answered."""
        self.silence()
        back = threading.Timer(milliseconds / 1000 / self.clock, self.come_back)
        back.daemon = True
        back.start()

    def come_back(self):
        with self.lock:
            if not self.closed:
                self.listen(self.port)

    def silence(self):
        self.http.shutdown()
        self.http.server_close()

    def answer(self, request):
        with self.lock:
            self.requests.append(request)
            return self.replies.pop(0) if self.replies else EXHAUSTED

    def close(self):
        with self.lock:
            self.closed = True
        self.silence()


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
            time.sleep(reply.get("delay_ms", 0) / 1000 / server.clock)
            if "away_ms" in reply:
                server.leave(reply["away_ms"])
                self.close_connection = True
            body = reply["body"]
            plain = isinstance(body, str)
            data = body.encode() if plain else json.dumps(body).encode()
            headers = {"content-type": "text/plain" if plain else "application/json"} | reply["headers"]
            self.send_response(reply["status"])
            for name, value in headers.items():
                self.send_header(name, str(value))
            self.send_header("content-length", str(len(data)))
            if self.close_connection:
                self.send_header("connection", "close")
            self.end_headers()
            try:
                self.wfile.write(data)
            except OSError:
                pass  # The client has closed the connection.

        do_GET = do_POST = take

        def log_message(self, *_):
            pass

    return Handler
