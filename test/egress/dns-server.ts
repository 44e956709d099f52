import { createSocket } from 'node:dgram'
import { Resolver } from 'node:dns/promises'
import type { Lookup } from '#egress/policy'

export interface DnsServer {
  /** Names asked for, in order. */
  readonly asked: string[]
  /** A resolver that asks this server. */
  readonly lookup: Lookup
  close(): Promise<void>
}

const HEADER_BYTES = 12
const TYPE_A = 1

/** A name server on loopback whose answers come from `answer`, with a TTL of zero. */
export async function startDnsServer(
  answer: (name: string, time: number) => readonly string[],
): Promise<DnsServer> {
  const asked: string[] = []
  const socket = createSocket('udp4')
  socket.on('message', (query, from) => {
    const { name, end, type } = readQuestion(query)
    const addresses = type === TYPE_A ? answer(name, asked.push(name)) : []
    const head = Buffer.from(query.subarray(0, HEADER_BYTES))
    head.writeUInt16BE(0x8180, 2)
    head.writeUInt16BE(addresses.length, 6)
    head.fill(0, 8, HEADER_BYTES)
    const records = addresses.map((address) =>
      Buffer.from([0xc0, HEADER_BYTES, 0, TYPE_A, 0, 1, 0, 0, 0, 0, 0, 4, ...address.split('.').map(Number)]),
    )
    socket.send(Buffer.concat([head, query.subarray(HEADER_BYTES, end), ...records]), from.port, from.address)
  })
  await new Promise<void>((bound) => socket.bind(0, '127.0.0.1', bound))
  const resolver = new Resolver()
  resolver.setServers([`127.0.0.1:${socket.address().port}`])
  return {
    asked,
    lookup: (hostname) => resolver.resolve4(hostname),
    close: () => new Promise((closed) => socket.close(() => closed())),
  }
}

function readQuestion(query: Buffer) {
  const labels: string[] = []
  let index = HEADER_BYTES
  for (let length = query[index] ?? 0; length > 0; length = query[index] ?? 0) {
    labels.push(query.toString('latin1', index + 1, index + 1 + length))
    index += length + 1
  }
  return { name: labels.join('.').toLowerCase(), type: query.readUInt16BE(index + 1), end: index + 5 }
}
