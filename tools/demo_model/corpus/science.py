"""Simple science and everyday knowledge: questions with answers, and things with their use."""

FACTS = [
    (
        [
            "Why is the sky blue?",
            "[Can you explain|Explain|Tell me] why the sky is blue.",
            "How come the sky is blue?",
        ],
        ["The sky is blue because the air scatters blue light from the Sun more than red light."],
    ),
    (
        [
            "[What is|What's] water made of?",
            "What does water consist of?",
            "What are the elements in water?",
        ],
        ["Water is made of hydrogen and oxygen."],
    ),
    (
        [
            "At what temperature does water boil?",
            "When does water boil?",
            "[What is|What's] the boiling point of water?",
            "How hot is boiling water?",
        ],
        ["Water boils at 100 degrees Celsius."],
    ),
    (
        [
            "At what temperature does water freeze?",
            "When does water freeze?",
            "[What is|What's] the freezing point of water?",
            "When does water turn to ice?",
        ],
        ["Water freezes at 0 degrees Celsius."],
    ),
    (["What is ice?", "What is ice made of?"], ["Ice is frozen water."]),
    (
        ["What is steam?", "What happens when water boils?"],
        ["When water boils it turns into steam, which is water as a gas."],
    ),
    (
        [
            "What is gravity?",
            "Explain gravity.",
            "Why do things fall down?",
            "Why does an apple fall?",
        ],
        ["Gravity is the force that pulls things towards the Earth. That is why things fall down."],
    ),
    (
        [
            "What is photosynthesis?",
            "How do plants [make|get] their food?",
            "Explain photosynthesis.",
        ],
        [
            "Plants use sunlight, water and carbon dioxide to make sugar. This is called "
            "photosynthesis."
        ],
    ),
    (
        ["What do plants need[| to grow|to live]?", "What does a plant need?"],
        ["Plants need light, water, air and soil."],
    ),
    (
        ["Why do leaves change colour[| in autumn]?", "Why do leaves turn red?"],
        [
            "In autumn trees stop making the green colour of their leaves, and so the yellow and"
            " red show."
        ],
    ),
    (
        ["What is a rainbow?", "How does a rainbow form?", "Where do rainbows come from?"],
        [
            "A rainbow forms when sunlight shines through drops of rain, which split it into"
            " colours."
        ],
    ),
    (
        ["Why does it rain?", "Where does rain come from?", "How does rain form?", "What is rain?"],
        ["Rain comes from clouds. Small drops of water join until they are heavy enough to fall."],
    ),
    (
        ["What are clouds made of?", "What is a cloud?", "What are clouds?"],
        ["Clouds are made of tiny drops of water or pieces of ice."],
    ),
    (
        ["What is snow?", "How does snow form?", "Where does snow come from?"],
        ["Snow is made of small crystals of ice that form in cold clouds."],
    ),
    (
        ["What is wind?", "Where does wind come from?", "Why is there wind?"],
        ["Wind is moving air. It blows because warm air rises and cold air takes its place."],
    ),
    (
        ["What is lightning?", "Where does lightning come from?"],
        ["Lightning is a large electric spark between clouds or between a cloud and the ground."],
    ),
    (
        ["What is thunder?", "Why does it thunder?"],
        ["Thunder is the sound of lightning, which heats the air so fast that it bursts outwards."],
    ),
    (
        ["What is the Sun?", "What is the sun?", "Is the Sun a star?", "Tell me about the Sun."],
        ["The Sun is a star. It gives the Earth light and warmth."],
    ),
    (
        ["What is the Moon?", "What is the moon?", "Tell me about the Moon."],
        ["The Moon is a ball of rock that moves around the Earth."],
    ),
    (
        ["How long does the Moon take to go around the Earth?", "How long is a month of the Moon?"],
        ["The Moon goes around the Earth in about 27 days."],
    ),
    (
        ["Why does the Moon shine?", "Does the Moon make its own light?"],
        ["The Moon makes no light of its own. It shines because the Sun lights it."],
    ),
    (
        ["What is a star?", "What are stars?", "What are stars made of?"],
        ["A star is a huge ball of hot gas that shines. The Sun is a star."],
    ),
    (
        ["Why is there day and night?", "Why does the Sun rise?", "What makes day and night?"],
        ["There is day and night because the Earth turns around itself once a day."],
    ),
    (
        ["Why are there seasons?", "What causes the seasons?", "Why do we have seasons?"],
        ["There are seasons because the Earth is tilted while it moves around the Sun."],
    ),
    (
        ["How long does the Earth take to go around the Sun?", "How long is a year?"],
        ["The Earth takes one year, about 365 days, to go around the Sun."],
    ),
    (
        ["Is the Earth flat?", "What shape is the Earth?", "Is the Earth round?"],
        ["The Earth is round, almost like a ball."],
    ),
    (
        ["How many continents are there?", "What are the continents?", "Name the continents."],
        [
            "There are seven continents: Africa, Antarctica, Asia, Australia, Europe, North America"
            " and South America."
        ],
    ),
    (
        ["How many oceans are there?", "What are the oceans?", "Name the oceans."],
        [
            "There are five oceans: the Pacific, the Atlantic, the Indian, the Arctic and the"
            " Southern Ocean."
        ],
    ),
    (
        ["[What|Which] is the [largest|biggest] ocean?", "What is the largest ocean in the world?"],
        ["The Pacific is the largest ocean."],
    ),
    (["[What|Which] is the [largest|biggest] continent?"], ["Asia is the largest continent."]),
    (["[What|Which] is the smallest continent?"], ["Australia is the smallest continent."]),
    (
        [
            "[What|Which] is the highest mountain[| in the world|on Earth]?",
            "How high is Mount Everest?",
            "What is Mount Everest?",
        ],
        ["Mount Everest is the highest mountain in the world. It is about 8849 metres high."],
    ),
    (
        ["[What|Which] is the longest river[| in the world]?", "What is the Nile?"],
        ["The Nile in Africa is usually called the longest river in the world."],
    ),
    (
        ["[What|Which] is the [largest|biggest] country[| in the world]?"],
        ["Russia is the largest country in the world."],
    ),
    (
        ["[What|Which] is the smallest country[| in the world]?"],
        ["Vatican City is the smallest country in the world."],
    ),
    (
        ["[What|Which] is the [largest|biggest] desert[| in the world]?", "What is the Sahara?"],
        ["The Sahara in Africa is the largest hot desert in the world."],
    ),
    (
        [
            "[What|Which] is the [largest|biggest] animal[| in the world]?",
            "What is the heaviest animal?",
        ],
        ["The blue whale is the largest animal in the world."],
    ),
    (
        ["[What|Which] is the fastest animal[| on land]?"],
        ["The cheetah is the fastest animal on land."],
    ),
    (["[What|Which] is the tallest animal?"], ["The giraffe is the tallest animal."]),
    (["[What|Which] is the slowest animal?"], ["The sloth is one of the slowest animals."]),
    (
        ["[What|Which] is the king of the animals?"],
        ["The lion is often called the king of the animals."],
    ),
    (
        ["What is a volcano?", "Explain volcanoes.", "How does a volcano work?"],
        ["A volcano is a mountain with an opening through which hot melted rock comes out."],
    ),
    (
        ["What is an earthquake?", "Why are there earthquakes?"],
        ["An earthquake is a shaking of the ground. It happens when large plates of rock move."],
    ),
    (["What is a desert?"], ["A desert is a place where it hardly ever rains."]),
    (["What is an island?"], ["An island is land with water all around it."]),
    (["What is a river?"], ["A river is water that flows over land to a lake or to the sea."]),
    (["What is a mountain?"], ["A mountain is a very high hill, often with rock or snow on top."]),
    (["What is a forest?"], ["A forest is a large area of land full of trees."]),
    (
        ["What is the sea?", "Why is the sea salty?"],
        ["The sea is salty because rivers carry salt from the rocks into it."],
    ),
    (
        ["What are tides?", "What causes the tides?", "Why are there tides?"],
        ["Tides are the rise and fall of the sea. The Moon causes them by its gravity."],
    ),
    (
        ["What is air made of?", "What is air?", "What do we breathe?"],
        ["Air is mostly nitrogen, and about one fifth of it is oxygen."],
    ),
    (
        ["Why do we need oxygen?", "Why do we breathe?"],
        ["We breathe because our bodies need oxygen to get energy from food."],
    ),
    (
        ["What is fire?", "What does fire need?"],
        ["Fire is burning. It needs fuel, oxygen and heat."],
    ),
    (
        ["How fast is light?", "What is the speed of light?", "How fast does light travel?"],
        ["Light travels about 300000 kilometres in one second."],
    ),
    (
        ["How fast is sound?", "What is the speed of sound?"],
        ["In air, sound travels about 340 metres in one second."],
    ),
    (
        ["What is faster, light or sound?", "Is light faster than sound?"],
        ["Light is much faster than sound."],
    ),
    (
        ["What is electricity?", "Explain electricity."],
        ["Electricity is the movement of tiny charged particles through a wire."],
    ),
    (
        ["What is a magnet?", "How does a magnet work?", "What does a magnet attract?"],
        ["A magnet is a piece of metal that pulls iron towards itself."],
    ),
    (
        ["What is an atom?", "What are atoms?"],
        ["Atoms are the tiny parts that everything is made of."],
    ),
    (["What is a molecule?"], ["A molecule is a group of atoms that hold together."]),
    (["What is energy?"], ["Energy is what is needed to move, heat or light something."]),
    (
        ["What is a solid?", "What are the states of matter?", "Name the three states of matter."],
        ["Matter can be a solid, a liquid or a gas."],
    ),
    (["Is ice a solid?"], ["Yes, ice is a solid."]),
    (["Is water a liquid?"], ["Yes, water is a liquid. When it freezes it becomes solid."]),
    (
        ["Does ice float on water?", "Why does ice float?"],
        ["Ice floats because it is lighter than the same amount of water."],
    ),
    (
        ["Does wood float?", "Why does wood float?"],
        ["Wood floats because it is lighter than the same amount of water."],
    ),
    (
        ["Does a stone float?", "Does a stone sink?", "Why does a stone sink?"],
        ["A stone sinks because it is heavier than the same amount of water."],
    ),
    (
        ["How many bones does a [human|person] have?", "How many bones are in the human body?"],
        ["An adult human has 206 bones."],
    ),
    (["How many teeth does [a human|an adult] have?"], ["An adult has up to 32 teeth."]),
    (
        ["How many fingers [do you have on a hand|does a hand have|are on one hand]?"],
        ["A hand has five fingers."],
    ),
    (
        ["What does the heart do?", "What is the heart for?", "What is the heart?"],
        ["The heart pumps blood through the body."],
    ),
    (
        ["What do the lungs do?", "What are lungs for?"],
        ["The lungs take oxygen from the air into the blood."],
    ),
    (
        ["What does the brain do?", "What is the brain for?"],
        ["The brain lets us think, feel and move."],
    ),
    (["What does the stomach do?"], ["The stomach breaks food into very small parts."]),
    (
        ["What are the five senses?", "Name the five senses.", "How many senses do we have?"],
        ["The five senses are sight, hearing, smell, taste and touch."],
    ),
    (
        ["Why do we sleep?", "Why do people need sleep?"],
        ["We sleep so that the body and the brain can rest."],
    ),
    (
        ["Why should I brush my teeth?", "Why do we brush our teeth?"],
        ["Brushing keeps your teeth clean and healthy."],
    ),
    (
        ["Is fruit healthy?", "Why should I eat fruit?"],
        ["Yes, fruit is healthy, because it is full of vitamins."],
    ),
    (["Where does milk come from?", "Who gives us milk?"], ["Most milk comes from cows."]),
    (
        ["Where does honey come from?", "Who makes honey?"],
        ["Honey is made by bees from the nectar of flowers."],
    ),
    (["Where does wool come from?", "What is wool?"], ["Wool comes from sheep."]),
    (["Where do eggs come from?"], ["Most eggs that people eat come from chickens."]),
    (
        ["How is bread made?", "What is bread made of?", "How do you make bread?"],
        ["Bread is made of flour, water, salt and yeast, and is baked in an oven."],
    ),
    (["What is cheese made of?", "How is cheese made?"], ["Cheese is made from milk."]),
    (["What is butter made of?"], ["Butter is made from cream."]),
    (["What is chocolate made of?"], ["Chocolate is made from cocoa beans, sugar and often milk."]),
    (["What is paper made of?", "How is paper made?"], ["Paper is made from wood."]),
    (
        ["What is glass made of?", "How is glass made?"],
        ["Glass is made from very hot, melted sand."],
    ),
    (
        ["What is a window made of?"],
        ["A window is made of glass in a frame of wood, metal or plastic."],
    ),
    (["What is steel?"], ["Steel is a strong metal made from iron and a little carbon."]),
    (
        ["Why does iron rust?", "What is rust?"],
        ["Iron rusts when it meets water and oxygen for a long time."],
    ),
    (
        ["What is the hardest natural material?", "Is diamond hard?"],
        ["Diamond is the hardest natural material."],
    ),
    (
        ["What is a computer?", "How does a computer work?", "Explain what a computer is."],
        ["A computer is a machine that follows instructions and works with numbers very fast."],
    ),
    (
        ["What is a program?", "What is software?"],
        ["A program is a list of instructions that a computer follows."],
    ),
    (
        ["What is the internet?"],
        ["The internet is a network that joins computers all over the world."],
    ),
    (
        ["What is a language model?", "How does a language model work?", "What is an LLM?"],
        [
            "A language model is a program that has learned from text which word comes next, and"
            " writes text one token at a time."
        ],
    ),
    (
        ["What is a token?", "What are tokens?"],
        [
            "A token is a piece of text, such as a word or a part of a word. Language models read"
            " and write tokens."
        ],
    ),
    (
        ["What is quantisation?", "What does quantised mean?", "What is quantization?"],
        [
            "Quantisation stores the weights of a model with fewer bits, so that it needs less"
            " memory and runs faster."
        ],
    ),
    (
        ["What is GGUF?", "What is a GGUF file?"],
        [
            "GGUF is a file format for language models. One file holds the weights, the vocabulary"
            " and the settings."
        ],
    ),
    (
        ["What is a CPU?", "What is a processor?"],
        ["A CPU is the part of a computer that carries out instructions."],
    ),
    (["What is a GPU?"], ["A GPU is a processor that does many simple calculations at once."]),
    (["What is a bit?"], ["A bit is the smallest piece of information: 0 or 1."]),
    (["What is a byte?"], ["A byte is a group of 8 bits."]),
    (
        ["What is memory?", "What is RAM?"],
        ["Memory, or RAM, is where a computer keeps what it is working on."],
    ),
    (
        ["What is a triangle?", "How many sides does a triangle have?"],
        ["A triangle is a shape with three sides."],
    ),
    (
        ["What is a square?", "How many sides does a square have?"],
        ["A square is a shape with four equal sides and four right angles."],
    ),
    (["What is a rectangle?"], ["A rectangle is a shape with four sides and four right angles."]),
    (
        ["What is a circle?"],
        ["A circle is a round shape. Each of its points is equally far from the centre."],
    ),
    (
        ["How many sides does a hexagon have?", "What is a hexagon?"],
        ["A hexagon is a shape with six sides."],
    ),
    (
        ["How many sides does a pentagon have?", "What is a pentagon?"],
        ["A pentagon is a shape with five sides."],
    ),
    (
        ["How many letters are in the alphabet?", "How long is the alphabet?"],
        ["The English alphabet has 26 letters."],
    ),
    (
        ["What are the vowels?", "Name the vowels.", "Which letters are vowels?"],
        ["The vowels are a, e, i, o and u."],
    ),
    (["What is the first letter of the alphabet?"], ["The first letter of the alphabet is A."]),
    (["What is the last letter of the alphabet?"], ["The last letter of the alphabet is Z."]),
    (
        ["Say the alphabet.", "What is the alphabet?", "Write the alphabet."],
        ["a b c d e f g h i j k l m n o p q r s t u v w x y z"],
    ),
    (["What is a noun?"], ["A noun is a word for a person, a place or a thing."]),
    (["What is a verb?"], ["A verb is a word for something that one does."]),
    (["What is an adjective?"], ["An adjective is a word that says what something is like."]),
    (["What is a mammal?"], ["A mammal is an animal that feeds its young with milk."]),
    (["What is a bird?"], ["A bird is an animal with feathers, wings and a beak."]),
    (
        ["What is a fish?", "How do fish breathe?"],
        ["A fish is an animal that lives in water and breathes through gills."],
    ),
    (["What is an insect?"], ["An insect is a small animal with six legs."]),
    (
        ["What is a reptile?"],
        ["A reptile is an animal with scales that needs warmth from outside."],
    ),
    (
        ["Is a whale a fish?", "Are whales fish?"],
        [
            "No, a whale is not a fish. It is a mammal, because it breathes air and feeds its young"
            " with milk."
        ],
    ),
    (
        ["What is the opposite of a desert?", "What is a rainforest?"],
        ["A rainforest is a warm forest where it rains very often."],
    ),
    (
        ["What is the zodiac?", "What is a comet?"],
        ["A comet is a ball of ice and dust that moves around the Sun."],
    ),
    (
        ["What is friendship?", "What is a friend?"],
        ["A friend is someone you like and trust, and who helps you."],
    ),
    (["What is love?"], ["Love is a strong and warm feeling for someone."]),
    (["What is music?"], ["Music is sound that people arrange so that it is good to hear."]),
    (["What is a story?"], ["A story tells what happened to someone, true or made up."]),
    (["What is a year?"], ["A year is the time that the Earth needs to go around the Sun."]),
    (["What is a day?"], ["A day is the time that the Earth needs to turn around itself."]),
    (["What is the equator?"], ["The equator is a line around the middle of the Earth."]),
    (["What is a compass?"], ["A compass is a tool with a needle that points north."]),
    (
        ["Where does the Sun rise?", "In which direction does the Sun rise?"],
        ["The Sun rises in the east."],
    ),
    (
        ["Where does the Sun set?", "In which direction does the Sun set?"],
        ["The Sun sets in the west."],
    ),
    (
        ["What are the four directions?", "Name the four directions."],
        ["The four directions are north, east, south and west."],
    ),
    (
        ["How do birds fly?", "Why can birds fly?"],
        ["Birds can fly because they have wings and light bones."],
    ),
    (["Why do cats purr?"], ["Cats purr mostly when they feel well."]),
    (["Why do dogs wag their tails?"], ["Dogs wag their tails when they are happy or excited."]),
    (
        ["How do bees make honey?"],
        ["Bees collect nectar from flowers and turn it into honey in their hive."],
    ),
    (
        ["How does a caterpillar become a butterfly?"],
        [
            "A caterpillar makes a shell around itself, changes inside, and comes out as a"
            " butterfly."
        ],
    ),
    (
        ["What do bees do?", "Why are bees important?"],
        ["Bees carry pollen from flower to flower, so that plants can make fruit and seeds."],
    ),
]

# thing, what it is, what people do with it
THINGS = [row.split("|") for row in """\
hammer|tool|hit nails
saw|tool|cut wood
screwdriver|tool|turn screws
shovel|tool|dig holes
ladder|tool|climb up high
needle|small tool|sew clothes
broom|tool|sweep the floor
bucket|container|carry water
basket|container|carry food
bottle|container|keep drinks
box|container|keep things
bag|container|carry things
wallet|small bag|carry money
knife|kitchen tool|cut food
fork|kitchen tool|eat food
spoon|kitchen tool|eat soup
pot|kitchen tool|cook soup
pan|kitchen tool|fry eggs
oven|kitchen machine|bake bread
fridge|kitchen machine|keep food cold
kettle|kitchen machine|boil water
cup|small vessel|drink tea
plate|flat dish|put food on
chair|piece of furniture|sit on
table|piece of furniture|put things on
bed|piece of furniture|sleep in
sofa|piece of furniture|rest on
shelf|piece of furniture|put books on
desk|piece of furniture|work at
lamp|source of light|light a room
candle|source of light|light a dark room
torch|small lamp|see in the dark
pen|writing tool|write
pencil|writing tool|write and draw
brush|tool|paint pictures
ruler|tool|measure lengths
eraser|small tool|remove pencil marks
book|set of printed pages|read stories
newspaper|set of printed pages|read the news
dictionary|kind of book|look up words
map|drawing of a place|find the way
clock|instrument|tell the time
watch|small clock|tell the time
thermometer|instrument|measure temperature
scale|instrument|measure weight
telescope|instrument|see stars
microscope|instrument|see very small things
camera|machine|take pictures
telephone|machine|talk to people far away
radio|machine|listen to music and news
television|machine|watch films
calculator|small machine|add numbers
washing machine|machine|wash clothes
car|vehicle|drive to places
bus|large vehicle|travel in a town
train|vehicle on rails|travel far
bicycle|vehicle with two wheels|ride to places
boat|vehicle for water|cross water
ship|large vehicle for water|cross the sea
aeroplane|vehicle for the air|fly to other countries
truck|large vehicle|carry heavy things
tractor|farm vehicle|work on fields
rocket|vehicle for space|fly into space
bridge|structure|cross a river
road|way for vehicles|travel from place to place
tunnel|way under the ground|pass through a mountain
house|building|live in
school|building|learn
hospital|building|get well again
library|building full of books|borrow books
museum|building|see old and beautiful things
bakery|shop|buy bread
pharmacy|shop|buy medicine
garden|piece of land|grow plants
farm|piece of land|grow food and keep animals
umbrella|cover against rain|stay dry in the rain
coat|piece of clothing|keep warm
hat|piece of clothing|cover the head
scarf|piece of clothing|keep the neck warm
shoe|piece of clothing|protect the feet
glove|piece of clothing|keep the hands warm
towel|piece of cloth|dry themselves
blanket|piece of cloth|keep warm in bed
pillow|soft bag|rest the head
mirror|sheet of glass|see themselves
key|small piece of metal|open a lock
door|part of a house|enter a room
window|part of a house|let light in
soap|thing for washing|wash their hands
toothbrush|small brush|clean their teeth
comb|tool|tidy their hair
piano|musical instrument|play music
guitar|musical instrument|play songs
drum|musical instrument|beat a rhythm
ball|toy|play games
kite|toy|play in the wind
doll|toy|play at home
coin|piece of money|pay
stamp|small piece of paper|send letters
ticket|piece of paper|travel or enter a place
rope|strong cord|tie things
net|tool|catch fish""".splitlines()]
