// What `npm start` serves: the demo toolkit, with its data in .collet/ of this folder.
export { default } from './examples/demo/collet.config.ts'
