import { afterEach, describe, expect, it } from 'vitest'
import { tool } from '#kernel/tool/define'
import { answerOf, ask, endTalks, inSession, openSession, startTalk } from './mcp-talk.ts'

const CALLS = 5
const CALL = { method: 'tools/call', params: { name: 'Note_Write' } }

afterEach(endTalks)

async function commitsOf(url: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text()
  return Number(/^collet_store_commit_rows_count (\d+)$/m.exec(text)?.[1])
}

describe('a call of a write tool', () => {
  it.each(['the newest revision', 'an older revision, whose requests can be cancelled by their id'])(
    'rule 14: costs two commits over %s: its claim and its outcome',
    async (revision) => {
      const policy = { safetyTier: 'write' } as const
      const note = { id: 'Note.Write@1.0.0', description: 'Notes.', input: {}, output: { type: 'number' } }
      const { server } = await startTalk([tool({ ...note, policy, run: () => 1 })])
      const session = revision.startsWith('an older') ? await openSession(server.url) : undefined
      const before = await commitsOf(server.url)
      for (let id = 1; id <= CALLS; id += 1) {
        const response =
          session === undefined
            ? await ask(server.url, { ...CALL, id })
            : await inSession(server.url, session, { ...CALL, id })
        expect((await answerOf(response)).result.isError ?? false).toBe(false)
      }
      expect((await commitsOf(server.url)) - before).toBe(2 * CALLS)
    },
  )
})
