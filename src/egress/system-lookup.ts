import { lookup } from 'node:dns/promises'

/** Every address that the system's resolver knows for a name. */
export async function systemLookup(hostname: string): Promise<readonly string[]> {
  const found = await lookup(hostname, { all: true })
  return found.map(({ address }) => address)
}
