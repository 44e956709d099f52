import { defineCommand } from '#cli/command'
import { EXIT } from '#cli/exit-codes'
import { STORE_OPTIONS, withStore } from '#cli/operator-store'

export const vaultRotate = defineCommand<'store' | 'config'>({
  name: 'vault rotate',
  summary: 'Gives the vault of every tenant a new data key and seals everything anew.',
  details: [
    'Works while a server uses the store. The data keys stay wrapped by COLLET_KEY, which itself does not change.',
    'Consents that are under way in a browser have to begin again.',
  ],
  positionals: [],
  options: STORE_OPTIONS,
  examples: ['collet vault rotate'],
  async run(args, context) {
    const { output, json, clock, userName } = context
    const rotated = await withStore(
      args,
      context,
      async (store) => await store.vault.rotate(`cli:${userName}`, clock.nowMs()),
    )
    if (json) output.json(rotated)
    else output.data(`Sealed anew: ${rotated.entries} credentials of ${rotated.tenants} tenants.`)
    return EXIT.ok
  },
})
