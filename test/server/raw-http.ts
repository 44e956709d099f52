import { connect, type Socket } from 'node:net'

export interface RawReply {
  readonly status: number
  readonly headers: ReadonlyMap<string, string>
  readonly body: string
}

/** Opens a socket, writes the bytes unchanged and resolves with everything received until the server closes. */
export async function sendRaw(port: number, bytes: string | Buffer, half = false): Promise<string> {
  const socket = await open(port)
  if (half) socket.end(bytes)
  else socket.write(bytes)
  return received(socket)
}

export function open(port: number): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>()
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true }, () => resolve(socket))
  socket.once('error', reject)
  return promise
}

export function received(socket: Socket): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>()
  let text = ''
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1')
  })
  socket.once('end', () => socket.end())
  socket.once('error', () => resolve(text))
  socket.once('close', () => resolve(text))
  return promise
}

/** The replies in a stream of bytes, by their content lengths. */
export function readReplies(text: string): readonly RawReply[] {
  const replies: RawReply[] = []
  let rest = text
  while (rest !== '') {
    const end = rest.indexOf('\r\n\r\n')
    const [statusLine = '', ...lines] = rest.slice(0, end).split('\r\n')
    const headers = new Map(
      lines.map((line) => {
        const colon = line.indexOf(':')
        return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const
      }),
    )
    const length = Number(headers.get('content-length') ?? 0)
    const start = end + 4
    replies.push({
      status: Number(statusLine.split(' ')[1]),
      headers,
      body: rest.slice(start, start + length),
    })
    rest = rest.slice(start + length)
  }
  return replies
}

export function request(lines: readonly string[], body = ''): string {
  return `${lines.join('\r\n')}\r\n\r\n${body}`
}
