import { describe, expect, it } from 'vitest'
import { connect } from '#client/index'
import { Browser } from './browser.ts'
import { AGENT, openStage } from './oauth-stage.ts'

describe('collet/client', () => {
  it('OTC-77, OTC-78: shows the link, waits for the consent, and calls again with the same id', async () => {
    await using stage = await openStage()
    const shown: string[] = []
    const client = connect(stage.url, {
      apiKey: AGENT,
      pollChallenges: true,
      sleep: async () => undefined,
      async onChallenge({ url }) {
        shown.push(url)
        await new Browser().visit(url, { login: 'ann' })
      },
    })
    const { value } = await client.call('Mail.Read@1.0.0', {})
    expect(value).toBe('mail')
    expect(shown).toHaveLength(1)
    expect(stage.given).toHaveLength(1)
  })
})
