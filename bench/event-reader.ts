import { connect, type Socket } from 'node:net'

/** The events that one reader of a stream received. */
export interface ReadEvents {
  /** `id` of each event, in the order of arrival. */
  readonly sequences: readonly number[]
  /** The time at which each arrived, on this process's clock. */
  readonly arrivalsMs: readonly number[]
}

const EVENT_ID = /(?:^|\n)id: (\d+)\n/g

/** A reader over a raw socket. `opened` resolves when the stream begins, `ended` when the server closes it. */
export class EventReader {
  readonly opened: Promise<void>
  readonly ended: Promise<ReadEvents>
  readonly #socket: Socket

  constructor(port: number, path: string, headers: Readonly<Record<string, string>>) {
    const lines = Object.entries({ host: `127.0.0.1:${port}`, connection: 'close', ...headers })
    const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')
    const opened = Promise.withResolvers<void>()
    const ended = Promise.withResolvers<ReadEvents>()
    this.opened = opened.promise
    this.ended = ended.promise
    this.#socket = connect(port, '127.0.0.1')
    this.#socket.setEncoding('latin1')
    this.#socket.write(`GET ${path} HTTP/1.1\r\n${head}\r\n`)
    const sequences: number[] = []
    const arrivalsMs: number[] = []
    let rest = ''
    this.#socket.on('data', (chunk: string) => {
      opened.resolve()
      const text = rest + chunk
      const end = text.lastIndexOf('\n\n')
      rest = text.slice(end + 1)
      for (const [, id] of text.slice(0, end + 1).matchAll(EVENT_ID)) {
        sequences.push(Number(id))
        arrivalsMs.push(performance.now())
      }
    })
    this.#socket.on('end', () => this.#socket.end())
    this.#socket.on('close', () => ended.resolve({ sequences, arrivalsMs }))
    this.#socket.on('error', (error) => {
      opened.reject(error)
      ended.reject(error)
    })
  }
}
