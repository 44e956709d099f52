import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openStore } from '#store/stores'

let dataFolder: string

beforeEach(() => {
  dataFolder = mkdtempSync(join(tmpdir(), 'collet-open-'))
})

afterEach(() => rmSync(dataFolder, { recursive: true }))

const open = (mode: 'server' | 'operator') =>
  openStore(`sqlite:${join(dataFolder, 'collet.db')}`, { dataFolder, masterKey: undefined, mode })

describe('the data folder', () => {
  it('is kept out of git, unless it is a folder with other files', async () => {
    await (await open('server')).close()
    expect(existsSync(join(dataFolder, '.gitignore'))).toBe(false)
    const own = join(dataFolder, '.collet')
    const options = { dataFolder: own, masterKey: undefined, mode: 'server' } as const
    const url = `sqlite:${join(own, 'collet.db')}`
    await (await openStore(url, options)).close()
    expect(readFileSync(join(own, '.gitignore'), 'utf8')).toBe('*\n')
    writeFileSync(join(own, '.gitignore'), 'mine')
    await (await openStore(url, options)).close()
    expect(readFileSync(join(own, '.gitignore'), 'utf8')).toBe('mine')
  })
})

describe('the key file', () => {
  it('rule 14: is created with the first database, even if the database file exists and is empty', async () => {
    writeFileSync(join(dataFolder, 'collet.db'), '')
    await (await open('server')).close()
    const key = readFileSync(join(dataFolder, 'key'), 'utf8')
    await (await open('server')).close()
    expect(readFileSync(join(dataFolder, 'key'), 'utf8')).toBe(key)
  })

  it.each(['server', 'operator'] as const)(
    'rule 14: if it is lost, a %s reports that and never replaces it, because a new key could open nothing',
    async (mode) => {
      await (await open('server')).close()
      rmSync(join(dataFolder, 'key'))
      await expect(open(mode)).rejects.toThrow(
        `the key file ${join(dataFolder, 'key')} is missing; restore it from a backup or set COLLET_KEY`,
      )
      expect(existsSync(join(dataFolder, 'key'))).toBe(false)
    },
  )
})
