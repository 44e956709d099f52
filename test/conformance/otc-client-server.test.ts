import { describe, expect, it } from 'vitest'
import { connect } from '#client/index'
import { testSettings } from '../test-settings.ts'
import { CLIENT_MODES, canPlay, NEVER_SENT } from './client-modes.ts'
import { readServerVectors } from './otc-vectors.ts'
import { playThroughClient } from './play-through-client.ts'
import { startVectorServer } from './vector-server.ts'

const vectors = readServerVectors()

it('leaves out only vectors that exist, and few of them', () => {
  const ids = new Set(vectors.map(({ id }) => id))
  expect([...NEVER_SENT.keys()].filter((id) => !ids.has(id))).toEqual([])
  expect(vectors.filter(({ id }) => !NEVER_SENT.has(id))).toHaveLength(70)
})

describe.each(CLIENT_MODES)('OTC vectors through client and server, $name', (mode) => {
  it.each(
    vectors
      .filter(({ id }) => canPlay(id, mode))
      .map((vector) => [vector.id, `${vector.desc} (${vector.refs.join(', ')})`, vector] as const),
  )('%s: %s', async (_id, _description, vector) => {
    const server = await startVectorServer(vector.server, testSettings)
    try {
      expect(await playThroughClient(vector, mode, server)).toEqual([])
    } finally {
      await server.close()
    }
  })

  it('rule 6: an answer names the call by the id that was sent, whatever characters it has', async () => {
    const server = await startVectorServer('default', testSettings)
    try {
      const client = connect(`${server.url}${mode.base}`, {
        ...(mode.dialect === undefined ? {} : { dialect: mode.dialect }),
        maxRetries: 0,
      })
      const callId = 'grüße 100% "🔔"'
      const refused = await client.tryCall('No.Such', {}, { callId })
      expect(refused.ok ? undefined : refused.error.callId).toBe(callId)
      const failed = await client.tryCall('Doorbell.Ring', { doorbell_id: 'doorbell-crash' }, { callId })
      expect(failed.ok ? undefined : failed.error.callId).toBe(callId)
      const done = await client.tryCall(
        'Doorbell.Ring',
        { doorbell_id: 'doorbell42' },
        { callId: `${callId}!` },
      )
      expect(done.ok && done.callId).toBe(`${callId}!`)
    } finally {
      await server.close()
    }
  })
})
