import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import { mkdir, open, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { Secret } from '#core/secret'

const FILE_NAME = 'start-token'

/**
 * The credential of whoever can read the data folder: what settling and other decisions need even on
 * loopback (rule 29). Lives as long as the server that made it.
 */
export interface StartToken {
  readonly file: string
  readonly token: Secret
  matches(presented: string): boolean
  /** Removes the file, unless another server has put its own token there meanwhile. */
  close(): Promise<void>
}

export async function createStartToken(dataFolder: string): Promise<StartToken> {
  await mkdir(dataFolder, { recursive: true, mode: 0o700 })
  const text = randomBytes(32).toString('base64url')
  const file = join(dataFolder, FILE_NAME)
  await writePrivately(file, text)
  const digest = digestOf(text)
  return {
    file,
    token: new Secret(text),
    matches: (presented) => timingSafeEqual(digestOf(presented), digest),
    async close() {
      const current = await readStartToken(dataFolder)
      if (current !== undefined && timingSafeEqual(digestOf(current.reveal()), digest))
        await rm(file, { force: true })
    },
  }
}

/** The token of the server that runs on this data folder; `undefined` when none does. */
export async function readStartToken(dataFolder: string): Promise<Secret | undefined> {
  try {
    return new Secret((await readFile(join(dataFolder, FILE_NAME), 'utf8')).trim())
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}

/** A new file moved into place: readers see a whole token or none, and a planted link is replaced, not followed. */
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

function digestOf(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}
