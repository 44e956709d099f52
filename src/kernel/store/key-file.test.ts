import fs, { chmodSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { readOrCreateKeyFile } from './key-file.ts'

let folder: string
let path: string
const database = (): string => join(folder, 'collet.db')

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-key-'))
  path = join(folder, 'data', 'collet.key')
})
afterEach(() => {
  vi.restoreAllMocks()
  syncBuiltinESMExports()
  rmSync(folder, { recursive: true })
})

describe('the key file', () => {
  it('rule 14: is on disk, with its name, before anything is sealed with it', () => {
    const steps: string[] = []
    const { fsyncSync, linkSync } = fs
    vi.spyOn(fs, 'fsyncSync').mockImplementation((file) => {
      steps.push(fs.fstatSync(file).isDirectory() ? 'sync folder' : 'sync key')
      fsyncSync(file)
    })
    vi.spyOn(fs, 'linkSync').mockImplementation((from, to) => {
      steps.push('name it')
      linkSync(from, to)
    })
    syncBuiltinESMExports()
    expect(readOrCreateKeyFile(path, database()).masterKey).toHaveLength(32)
    expect(steps).toEqual(['sync key', 'name it', 'sync folder'])
  })

  it('rule 14: is created once, readable by its owner alone, and leaves no draft behind', () => {
    const first = readOrCreateKeyFile(path, database())
    expect(readOrCreateKeyFile(path, database())).toEqual(first)
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(readdirSync(join(folder, 'data'))).toEqual(['collet.key'])
  })

  it('rule 14: is never created for a database in use, and is refused if others can read it', () => {
    writeFileSync(database(), 'in use')
    expect(() => readOrCreateKeyFile(path, database())).toThrow('is missing; restore it')
    rmSync(database())
    readOrCreateKeyFile(path, database())
    chmodSync(path, 0o640)
    expect(() => readOrCreateKeyFile(path, database())).toThrow('chmod 600')
  })
})
