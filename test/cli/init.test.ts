import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { findPackageBuild } from '#cli/package-build'
import { FakeIo } from './fake-io.ts'

const ROOT = resolve(import.meta.dirname, '../..')

let folder: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'collet-init-'))
})

afterEach(() => rmSync(folder, { recursive: true }))

const read = (...path: string[]): string => readFileSync(join(folder, ...path), 'utf8')

describe('collet init', () => {
  it('creates a project in a new folder and prints the next three commands', async () => {
    const io = new FakeIo({}, { workingFolder: folder })
    expect(await io.run('init', 'My Tools')).toBe(0)
    expect(readdirSync(join(folder, 'My Tools'), { recursive: true }).sort()).toEqual([
      '.gitignore',
      'README.md',
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
    const commands = next.trimEnd().split('\n')
    expect(commands.map((line) => line.trim().replace(/ {2,}/, ' | '))).toEqual([
      'cd "My Tools" && npm install | gets collet, zod and Node 24',
      'npm test | runs the test of the tool',
      'npm run dev | serves the tool, and restarts after each save',
    ])
  })

  it('depends on the checkout that created it, and installs Node 24 on machines with an older Node', async () => {
    const io = new FakeIo({}, { workingFolder: folder })
    expect(await io.run('init')).toBe(0)
    const { dependencies, devDependencies, allowScripts } = JSON.parse(read('package.json'))
    const [, path = ''] = /^file:(.+)$/.exec(dependencies.collet) ?? []
    expect(realpathSync(resolve(folder, path))).toBe(ROOT)
    expect([devDependencies.node, allowScripts]).toEqual(['^24.0.0', { node: true }])
  })

  it('builds the checkout that it runs from if the build is missing or out of date', async () => {
    const built: string[] = []
    const packageBuild = async (root: string) => async () => void built.push(root)
    const io = new FakeIo({ packageBuild }, { workingFolder: folder })
    expect(await io.run('init')).toBe(0)
    expect(built).toEqual([ROOT])
    expect(io.stderr).toMatch(/^Collet built in \d+ s\.\n$/)
    expect(io.stdout).not.toContain('run build')
  })

  it('creates the project and fails with advice if the checkout cannot be built', async () => {
    const packageBuild = async () => () => Promise.reject(new Error('src/index.ts: wrong'))
    const io = new FakeIo({ packageBuild }, { workingFolder: folder })
    expect(await io.run('init')).toBe(3)
    expect(read('package.json')).toContain('collet dev')
    expect(io.stderr).toContain('Collet cannot be built: src/index.ts: wrong')
    expect(io.stderr).toContain(`Run npm run build in ${ROOT}.`)
  })

  it('regards a build as out of date if one of its sources is equally new', () => {
    for (const name of ['dist', 'src/core']) mkdirSync(join(folder, name), { recursive: true })
    const files = ['src/core/one.ts', 'dist/index.d.ts', 'dist/config.schema.json']
    const write = (file: string, at: number) => {
      writeFileSync(join(folder, file), '')
      utimesSync(join(folder, file), at, at)
    }
    expect(findPackageBuild(folder)).toBeTypeOf('function')
    for (const [at, file] of files.entries()) write(file, 1_000 + at)
    expect(findPackageBuild(folder)).toBeUndefined()
    write('src/core/one.ts', 1_002)
    expect(findPackageBuild(folder)).toBeTypeOf('function')
  })

  it('changes no existing files, and explains how to continue', async () => {
    for (const name of ['package.json', 'collet.config.ts']) writeFileSync(join(folder, name), 'mine')
    const io = new FakeIo({}, { workingFolder: folder })
    expect(await io.run('init', '--json')).toBe(0)
    const printed = JSON.parse(io.stdout)
    expect(printed).toMatchObject({ folder, kept: ['package.json', 'collet.config.ts'] })
    expect(printed.next.at(-3).command).toMatch(/^npm install collet@\S+ zod@\S+$/)
    expect(read('package.json') + read('collet.config.ts')).toBe('minemine')
    expect(await io.run('init')).toBe(0)
    expect(io.stderr).toContain('tools/count-words.ts exists already and is not changed.')
    expect(io.stderr).toContain('tools: ["tools/*.ts"]')
  })
})
