// What a step takes on a cluster, and the best way to split it: tinytorch/perf/distributed/larger/prediction.py and what it
// uses, formula by formula. A check holds both to the same answers.
"use strict";

globalThis.cluster ??= {};

{
  const BUCKET_BYTES = 25 * 2 ** 20;
  const GIVEN = { data: 1, tensor: 1, pipeline: 1, micro: 1, sharding: 0, overlap: 0, bucket_bytes: BUCKET_BYTES };
  /** How many times 2 goes into a number of ranks. */
  const log2 = (ranks) => 31 - Math.clz32(ranks);
  const isPower = (ranks) => (ranks & (ranks - 1)) === 0;
  /** The first of those that take least. */
  const cheapest = (costs) => costs.reduce((best, cost) => (cost.seconds < best.seconds ? cost : best));

  const ring = (nbytes, ranks, line) => 2 * (ranks - 1) * (line.alpha_s + (nbytes / ranks) * line.beta_s_per_byte);
  const doubling = (nbytes, ranks, line) =>
    (log2(ranks) + (isPower(ranks) ? 0 : 2)) * (line.alpha_s + nbytes * line.beta_s_per_byte);
  const halving = (nbytes, ranks, line) => {
    const power = 2 ** log2(ranks);
    const seconds = 2 * log2(ranks) * line.alpha_s + ((2 * (power - 1)) / power) * nbytes * line.beta_s_per_byte;
    return ranks > power ? seconds + 2 * (line.alpha_s + nbytes * line.beta_s_per_byte) : seconds;
  };
  const allReduce = (nbytes, ranks, line) =>
    ranks === 1
      ? { seconds: 0, algorithm: "none" }
      : cheapest([
          { seconds: ring(nbytes, ranks, line), algorithm: "ring" },
          { seconds: doubling(nbytes, ranks, line), algorithm: "recursive doubling" },
          { seconds: halving(nbytes, ranks, line), algorithm: "halving and doubling" },
        ]);
  const allGather = (nbytes, ranks, line) => {
    if (ranks === 1) return 0;
    const moving = ((ranks - 1) / ranks) * nbytes * line.beta_s_per_byte;
    return (isPower(ranks) ? log2(ranks) : ranks - 1) * line.alpha_s + moving;
  };

  /** Ranks of one kind: how many, and how many ranks lie between two of them. */
  class Group {
    constructor(members, stride, links) {
      Object.assign(this, { members, links });
      const room = links.ranks_per_node / stride;
      if (!Number.isInteger(room)) this.near = 1;
      else if (members <= room) this.near = room % members === 0 ? members : 1;
      else this.near = members % room === 0 ? room : 1;
      this.line = this.near === members ? links.inside : links.between;
    }
    allReduce(nbytes) {
      const flat = allReduce(nbytes, this.members, this.line);
      if (this.near === 1 || this.near === this.members) return flat;
      const far = allReduce(nbytes / this.near, this.members / this.near, this.links.between);
      const seconds = 2 * allGather(nbytes, this.near, this.links.inside) + far.seconds;
      return cheapest([flat, { seconds, algorithm: `two levels, ${far.algorithm}` }]);
    }
    allGather(nbytes) {
      const flat = allGather(nbytes, this.members, this.line);
      if (this.near === 1 || this.near === this.members) return flat;
      const far = allGather(nbytes / this.near, this.members / this.near, this.links.between);
      return Math.min(flat, far + allGather(nbytes, this.near, this.links.inside));
    }
  }

  /** The height of straight lines through rows of [place, height] at a place; one row is a line through 0. */
  const between = (rows, at) => {
    if (rows.length === 1) return (rows[0][1] * at) / rows[0][0];
    const found = rows.slice(1, -1).findIndex(([place]) => at <= place);
    const first = found < 0 ? rows.length - 2 : found;
    const [[left, low], [right, high]] = rows.slice(first, first + 2);
    const height = low + ((high - low) * (at - left)) / (right - left);
    if (at < left) return Math.max(height, (low * at) / left);
    return at > right ? Math.max(height, high) : height;
  };

  const partSeconds = (part, examples, tensor) =>
    part.times.length
      ? between(part.times.map(([count, divided, whole]) => [count, divided / tensor + whole]), examples)
      : part.call_s + examples * (part.divided_s / tensor + part.whole_s);
  const partParameters = (part, tensor) => part.divided_parameters / tensor + part.whole_parameters;
  const partBytes = (part, tensor) => part.divided_bytes / tensor + part.whole_bytes;

  const flow = (workload, links, split, blockS, endsS, here) => {
    const { pipeline: stages, micro } = split;
    if (stages === 1) return [0, 0];
    const slowest = here * blockS + endsS;
    const passage = workload.blocks * blockS + endsS;
    const { line } = new Group(stages, split.tensor * split.data, links);
    const nbytes = (workload.examples / (split.data * micro)) * workload.message_bytes;
    const message = line.alpha_s + nbytes * line.beta_s_per_byte;
    const slack = (stages * slowest - passage) / (stages - 1);
    const late = (micro - 1 - Math.ceil((micro - 1) / stages)) * Math.max(0, 2 * message - slack);
    const tied = (workload.tied_parameters * workload.gradient_bytes) / split.tensor;
    return [passage - slowest, 2 * (stages - 1) * message + late + allReduce(tied, 2, line).seconds];
  };

  const gradients = (workload, links, split, parameters, stageS) => {
    const group = new Group(split.data, split.tensor, links);
    if (split.data === 1) return [0, 0, "none"];
    const [sent, weights] = [parameters * workload.gradient_bytes, parameters * workload.weight_bytes];
    const buckets = Math.max(1, Math.ceil(sent / split.bucket_bytes));
    const backwardS = workload.backward_share * stageS;
    let [communicated, room, after, algorithm] = [0, 0, 0, "reduce-scatter and all-gather"];
    if (split.sharding === 0) {
      const cost = group.allReduce(sent / buckets);
      [communicated, room, algorithm] = [buckets * cost.seconds, backwardS, cost.algorithm];
    } else {
      const scatter = buckets * group.allGather(sent / buckets);
      const gather = buckets * group.allGather(weights / buckets);
      const turns = split.sharding > 1 ? split.micro : 1;
      if (split.sharding === 3) [communicated, room] = [turns * (scatter + 2 * gather), turns * stageS];
      else [communicated, room, after] = [turns * scatter, turns * backwardS, gather];
    }
    const hidden = Math.min(communicated, split.overlap * room);
    return [communicated - hidden + after, hidden, algorithm];
  };

  const memoryOf = (workload, split, parameters, micro, here) => {
    const share = (stage) => (split.sharding >= stage ? split.data : 1);
    const blocks = Math.min(split.pipeline, split.micro) * here * partBytes(workload.block, split.tensor);
    const memory = {
      weights: (parameters * workload.weight_bytes) / share(3),
      gradients: (parameters * workload.gradient_bytes) / share(2),
      state: (parameters * workload.state_bytes) / share(1),
      activations: micro * (blocks + partBytes(workload.ends, split.tensor)),
    };
    return { ...memory, total: memory.weights + memory.gradients + memory.state + memory.activations };
  };

  /**
   * A modelled step.
   * @param workload the fields of tinytorch's Workload, as JSON. @param given {inside, between, ranks_per_node}.
   * @param wanted the fields of Split; what is left out is as there.
   */
  cluster.predict = (workload, given, wanted) => {
    const split = { ...GIVEN, ...wanted };
    const ranks = split.data * split.tensor * split.pipeline;
    const links = ranks <= given.ranks_per_node ? { ...given, between: given.inside } : given;
    const micro = workload.examples / (split.data * split.micro);
    const blockS = partSeconds(workload.block, micro, split.tensor);
    const endsS = partSeconds(workload.ends, micro, split.tensor);
    const here = Math.ceil(workload.blocks / split.pipeline);
    const sums = new Group(split.tensor, 1, links).allReduce(micro * workload.message_bytes);
    const sumsS = workload.sums_per_block * sums.seconds;
    const [bubble, handing] = flow(workload, links, split, blockS + sumsS, endsS, here);
    const stageS = here * blockS + endsS;
    const parameters = here * partParameters(workload.block, split.tensor) + partParameters(workload.ends, split.tensor);
    const [exposed, hidden, algorithm] = gradients(workload, links, split, parameters, stageS);
    const parts = {
      computing: split.micro * stageS,
      bubble,
      tensor: split.micro * here * sumsS,
      handing,
      gradients: exposed,
      updating: (parameters * workload.update_s) / (split.sharding ? split.data : 1),
    };
    const seconds = parts.computing + parts.bubble + parts.tensor + parts.handing + parts.gradients + parts.updating;
    return {
      split, ranks, ...parts, seconds, hidden,
      memory: memoryOf(workload, split, parameters, micro, here),
      gradient_algorithm: algorithm,
      tensor_algorithm: sums.algorithm,
    };
  };

  const divisors = (number) => {
    const small = [];
    for (let divisor = 1; divisor * divisor <= number; divisor += 1) if (number % divisor === 0) small.push(divisor);
    return [...small, ...small.filter((divisor) => divisor ** 2 !== number).map((divisor) => number / divisor).reverse()];
  };

  /**
   * The best number of micro-batches of each split of `ranks`, the fastest first; none where nothing fits.
   * @param options {memory_bytes|null, sharding, overlap, bucket_bytes}
   */
  cluster.bestSplits = (workload, links, ranks, { memory_bytes = null, ...options } = {}) => {
    const all = [];
    for (const tensor of divisors(ranks).filter((one) => workload.heads % one === 0)) {
      for (const pipeline of divisors(ranks / tensor).filter((one) => one <= workload.blocks)) {
        const data = ranks / tensor / pipeline;
        if (workload.examples % data) continue;
        const found = divisors(workload.examples / data)
          .map((micro) => cluster.predict(workload, links, { ...options, data, tensor, pipeline, micro }))
          .filter((one) => memory_bytes === null || one.memory.total <= memory_bytes);
        if (found.length) all.push(cheapest(found));
      }
    }
    return all.sort((a, b) => a.seconds - b.seconds);
  };

  /** The workload of a GPT at a rate: tinytorch's transformer_workload. */
  cluster.transformer = ({ layers, width, heads, positions, vocabulary, examples, flops_per_second, recompute = false, number_bytes = 2 }) => {
    const [s, h, c] = [positions, width, number_bytes];
    const passes = recompute ? 4 : 3;
    const divided = 12 * s * h * c + heads * s ** 2 * (2 * c + 1);
    const whole = s * h * (4 * c + 2);
    const [keptDivided, keptWhole] = recompute ? [0, s * h * c] : [divided, whole];
    const [workingDivided, workingWhole] = recompute ? [divided, whole] : [0, 0];
    const part = (seconds, parameters, ownParameters, bytes, ownBytes) => ({
      call_s: 0, divided_s: seconds, whole_s: 0,
      divided_parameters: parameters, whole_parameters: ownParameters, divided_bytes: bytes, whole_bytes: ownBytes, times: [],
    });
    const blockS = (passes * (24 * s * h ** 2 + 4 * s ** 2 * h)) / flops_per_second;
    const endsS = (6 * s * h * vocabulary) / flops_per_second;
    return {
      blocks: layers, heads, examples,
      block: part(blockS, 12 * h ** 2 + 7 * h, 6 * h, keptDivided, keptWhole),
      ends: part(endsS, vocabulary * h, s * h + 2 * h, 4 * s * vocabulary + workingDivided, s * h * (2 * c + 1) + workingWhole),
      backward_share: (passes - 1) / passes,
      update_s: 0,
      message_bytes: s * h * c,
      sums_per_block: recompute ? 6 : 4,
      tied_parameters: vocabulary * h,
      weight_bytes: c, gradient_bytes: c, state_bytes: c === 2 ? 12 : 8,
    };
  };
}
