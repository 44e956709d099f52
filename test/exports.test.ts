import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'

const ROOT = join(import.meta.dirname, '..')

/** What users may import, symbol by symbol: a change here is a change of the public surface. */
const PUBLIC: Readonly<Record<string, readonly string[]>> = {
  collet: [
    'DefinitionError',
    'Secret',
    'ToolError',
    'content',
    'createGateway',
    'defineConfig',
    'prompt',
    'resource',
    'resourceChanged',
    'serve',
    'skill',
    'tool',
    'workflow',
  ],
  'collet/ai-sdk': ['aiSdkTools'],
  'collet/anthropic': ['anthropicTools'],
  'collet/client': ['CallFailure', 'connect', 'opentool'],
  'collet/http': ['createHandler'],
  'collet/langchain': ['langchainTools'],
  'collet/mastra': ['mastraTools'],
  'collet/openai': ['agentTools', 'chatTools', 'responseTools'],
  'collet/protocols/opentool': [
    'OpenToolDocumentError',
    'SchemaConversionError',
    'assignNames',
    'dereference',
    'documentOf',
    'fromJsonSchema',
    'fromOpenAiToolCall',
    'fromOpenTool',
    'legalName',
    'load',
    'loadFile',
    'readDocument',
    'returnFromJsonSchema',
    'returnNameOf',
    'serialize',
    'serverBaseUrl',
    'toJsonSchema',
    'toOpenAiTool',
    'validate',
  ],
  'collet/testing': [
    'ALICE',
    'FakeClock',
    'callRequest',
    'errorOf',
    'faultyStore',
    'gist',
    'openTestGateway',
    'testTool',
  ],
}

describe('the public surface', () => {
  it.each(Object.entries(PUBLIC))('%s exports exactly these', async (name, symbols) => {
    expect(Object.keys(await import(name)).sort()).toEqual(symbols)
  })

  it('package.json names no other subpath, and each has its source', () => {
    const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
    const names = Object.keys(exports).map((path) => path.replace(/^\.\/?/, 'collet/').replace(/\/$/, ''))
    expect(names.sort()).toEqual([...Object.keys(PUBLIC), 'collet/package.json'].sort())
    for (const entry of Object.values<unknown>(exports)) {
      if (typeof entry === 'object' && entry !== null && 'collet-source' in entry) {
        expect(existsSync(join(ROOT, String(entry['collet-source'])))).toBe(true)
      }
    }
  })
})
