import { mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createStartToken, readStartToken } from './start-token.ts'

let folder: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'collet-token-'))
})

afterEach(() => rm(folder, { recursive: true, force: true }))

describe('createStartToken', () => {
  it('rule 29: keeps a random token in a file that only its owner can read', async () => {
    const file = join(folder, 'data', 'start-token-1')
    const start = createStartToken()
    await start.publish(file)
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    expect((await readFile(file, 'utf8')).trim()).toBe(start.token.reveal())
    expect(start.token.reveal()).toMatch(/^[\w-]{43}$/)
    expect(await readdir(join(folder, 'data'))).toEqual(['start-token-1'])
  })

  it('matches only its own token', () => {
    const start = createStartToken()
    expect(start.matches(start.token.reveal())).toBe(true)
    for (const other of ['', 'x', `${start.token.reveal()} `]) expect(start.matches(other)).toBe(false)
  })

  it('removes the file on close, so that no token is found', async () => {
    const file = join(folder, 'start-token-1')
    const start = createStartToken()
    await start.publish(file)
    expect((await readStartToken(file))?.reveal()).toBe(start.token.reveal())
    await start.close()
    expect(await readStartToken(file)).toBeUndefined()
    await start.close()
  })

  it('keeps the token of a server that started later', async () => {
    const file = join(folder, 'start-token-1')
    const [first, second] = [createStartToken(), createStartToken()]
    await first.publish(file)
    await second.publish(file)
    await first.close()
    expect((await readStartToken(file))?.reveal()).toBe(second.token.reveal())
  })

  it('replaces a symbolic link instead of writing through it', async () => {
    const victim = join(folder, 'victim')
    await writeFile(victim, 'untouched')
    const file = join(folder, 'start-token-1')
    await symlink(victim, file)
    await createStartToken().publish(file)
    expect(await readFile(victim, 'utf8')).toBe('untouched')
  })
})
