// Adds a key to every request, for a client that can not: passes all the rest on as it is, Host
// and Origin included. argv: the server's URL, the key. Prints its own port.
import http from "node:http";

const [url, key] = process.argv.slice(2);
const { hostname, port } = new URL(url);

http.createServer((request, answer) => {
    const further = http.request({ hostname, port, path: request.url, method: request.method,
        headers: { ...request.headers, "x-api-key": key } }, (response) => {
        answer.writeHead(response.statusCode, response.headers);
        answer.flushHeaders();
        response.pipe(answer);
    });
    further.on("error", () => answer.destroy());
    answer.on("close", () => further.destroy());
    request.pipe(further);
}).listen(0, "127.0.0.1", function listening() {
    process.stdout.write(`${this.address().port}\n`);
});
