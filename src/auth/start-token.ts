import { randomBytes } from 'node:crypto'
import { mkdir, open, readFile, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { isSameSecret } from '#kernel/base/hash'
import { Secret } from '#kernel/base/secret'

/**
 * The start token: an operator's credential that every user who can read the data folder can use (rule 29), because decisions need a
 * credential even on loopback. The server creates and publishes the token; commands on the same machine read it.
 * Invariant: the token is valid only while the server that created it runs.
 */
export interface StartToken {
  readonly token: Secret
  matches(presented: string): boolean
  /** Writes the file that commands read. Called once the server listens, because until then another server may use the file. */
  publish(file: string): Promise<void>
  /** Removes the file, unless another server has replaced it. */
  close(): Promise<void>
}

/** `shared` is a token that several servers use; such a server does not remove the file. */
export function createStartToken(shared?: Secret): StartToken {
  const text = shared?.reveal() ?? randomBytes(32).toString('base64url')
  const matches = (presented: string): boolean => isSameSecret(presented, text)
  let published: string | undefined
  return {
    token: new Secret(text),
    matches,
    async publish(file) {
      await mkdir(dirname(file), { recursive: true, mode: 0o700 })
      await writePrivately(file, text)
      if (shared === undefined) published = file
    },
    async close() {
      const current = published === undefined ? undefined : await readStartToken(published)
      if (published !== undefined && current !== undefined && matches(current.reveal()))
        await rm(published, { force: true })
    },
  }
}

export async function readStartToken(file: string): Promise<Secret | undefined> {
  try {
    return new Secret((await readFile(file, 'utf8')).trim())
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}

/** Writes a new file and renames it, so that readers see a whole token or none, and a planted link is replaced and not followed. */
async function writePrivately(file: string, text: string): Promise<void> {
  const draft = `${file}.${randomBytes(6).toString('hex')}`
  const handle = await open(draft, 'wx', 0o600)
  try {
    await handle.writeFile(`${text}\n`)
  } finally {
    await handle.close()
  }
  await rename(draft, file)
}
