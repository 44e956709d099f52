import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { FakeIo } from './fake-io.ts'

let folder: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-init-'))
})

afterEach(() => rmSync(folder, { recursive: true }))

const read = (...path: string[]): string => readFileSync(join(folder, ...path), 'utf8')

describe('collet init', () => {
  it('makes a project in a new folder and says the next three commands', async () => {
    const io = new FakeIo({}, { workingFolder: folder })
    expect(await io.run('init', 'My Tools')).toBe(0)
    expect(readdirSync(join(folder, 'My Tools'), { recursive: true }).sort()).toEqual([
      '.gitignore',
      'collet.config.ts',
      'package.json',
      'tools',
      'tools/count-words.test.ts',
      'tools/count-words.ts',
      'tsconfig.json',
    ])
    expect(JSON.parse(read('My Tools', 'package.json'))).toMatchObject({ name: 'my-tools', type: 'module' })
    expect(read('My Tools', '.gitignore')).toContain('.collet/')
    const [, next = ''] = io.stdout.split('Next:\n')
    expect(next.trimEnd().split('\n')).toEqual([
      '  cd "My Tools" && npm install  gets collet and zod',
      '  npm test                      runs the test of the tool',
      '  npm run dev                   serves the tool, and again at each save',
    ])
  })

  it('leaves what is there as it is, and says how to go on with it', async () => {
    for (const name of ['package.json', 'collet.config.ts']) writeFileSync(join(folder, name), 'mine')
    const io = new FakeIo({}, { workingFolder: folder })
    expect(await io.run('init', '--json')).toBe(0)
    const said = JSON.parse(io.stdout)
    expect(said).toMatchObject({ folder, kept: ['package.json', 'collet.config.ts'] })
    expect(said.next[0].command).toMatch(/^npm install collet@\S+ zod@\S+$/)
    expect(read('package.json') + read('collet.config.ts')).toBe('minemine')
    expect(await io.run('init')).toBe(0)
    expect(io.stderr).toContain('tools/count-words.ts is there already and stays as it is.')
    expect(io.stderr).toContain('tools: ["tools/*.ts"]')
  })
})
