import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import type { WireRunEvent } from '#protocols/openwop/wire'

export interface Frame {
  readonly id: string
  readonly event: string
  readonly data: WireRunEvent
}

/** Follows a run over a socket, frame by frame. */
export class EventReader {
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly frames: Frame[] = []
  readonly comments: string[] = []
  /** Resolves when the server ends the stream. */
  readonly ended: Promise<void>
  readonly #response: IncomingMessage
  #rest = ''
  #heard = Promise.withResolvers<void>()

  private constructor(response: IncomingMessage) {
    this.#response = response
    this.status = response.statusCode ?? 0
    this.headers = response.headers
    response.setEncoding('utf8').on('data', (chunk: string) => this.#take(chunk))
    this.ended = once(response, 'end').then(() => this.#heard.resolve())
    this.ended.catch(() => undefined)
  }

  static async open(url: string, headers: Record<string, string>): Promise<EventReader> {
    const sent = httpRequest(url, { headers, agent: false }).end()
    const [response] = await once(sent, 'response')
    return new EventReader(response)
  }

  /** Resolves after this many events; throws when the stream ends before. */
  async until(count: number): Promise<readonly Frame[]> {
    while (this.frames.length < count) {
      if (this.#response.readableEnded)
        throw new Error(`the stream (${this.status}) ended after ${this.frames.length} events`)
      await this.#heard.promise
    }
    return this.frames
  }

  leave(): void {
    this.#response.destroy()
  }

  #take(chunk: string): void {
    const parts = (this.#rest + chunk).split('\n\n')
    this.#rest = parts.pop() ?? ''
    for (const part of parts) {
      if (part.startsWith(':')) this.comments.push(part)
      else this.frames.push(frameOf(part))
    }
    this.#heard.resolve()
    this.#heard = Promise.withResolvers()
  }
}

/** Exactly these three fields, each on one line, in this order (OWP-98). */
export function frameOf(text: string): Frame {
  const match = /^id: (\d+)\nevent: (\S+)\ndata: (.*)$/.exec(text)
  if (match === null) throw new Error(`this is no frame: ${JSON.stringify(text)}`)
  return { id: match[1] ?? '', event: match[2] ?? '', data: JSON.parse(match[3] ?? '') }
}
