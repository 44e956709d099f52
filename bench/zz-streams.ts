import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { addCall } from './bench-request.ts'
import { EventReader } from './event-reader.ts'
const dir = '/tmp/bench-w/snap'
const child = spawn(process.execPath, ['--conditions=collet-source', '--disable-warning=ExperimentalWarning', '--expose-gc', `--diagnostic-dir=${dir}`, '--heapsnapshot-signal=SIGUSR2', 'bench/servers/' + (process.argv[2] ?? 'collet') + '.ts', '--store=sqlite', '--tools=10'], { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] })
const [line] = await once(createInterface({ input: child.stdout! }), 'line')
const port = Number(String(line).split(' ')[1])
const ask = async () => { const a = once(child, 'message'); child.send('memory'); return (await a)[0] as any }
const { path, headers, body } = addCall()
const { 'content-type': _, ...credential } = headers
await (await fetch(`http://127.0.0.1:${port}${path}`, { method: 'POST', headers: { ...headers, 'collet-run': 'w' }, body: JSON.stringify(body) })).text()
// warm
const warm = Array.from({ length: 20 }, () => new EventReader(port, '/v1/runs/w/events', credential)); await Promise.all(warm.map((r) => r.opened))
const a = await ask()
if (process.argv[3]) { child.kill('SIGUSR2'); await new Promise((r) => setTimeout(r, 6000)) }
const readers = Array.from({ length: 1000 }, () => new EventReader(port, '/v1/runs/w/events', credential)); await Promise.all(readers.map((r) => r.opened))
const b = await ask()
for (const k of ['heapUsed', 'external', 'arrayBuffers', 'rss']) console.log(k, ((b[k] - a[k]) / 1e6).toFixed(2))
if (process.argv[3]) { child.kill('SIGUSR2'); await new Promise((r) => setTimeout(r, 8000)) }
child.kill('SIGKILL')
process.exit()
